#include "experiments/planner/exchange_work.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <vector>

#include <ATen/ATen.h>

#include "experiments/config/tables/block_layers.h"
#include "lib/metrics/time_spent.h"
#include "lib/schedules/plan/peers.h"
#include "lib/tensors/sums.h"

namespace sluice::planner {

double seconds_of_sum(double bytes, std::int64_t replicas) {
  constexpr int kTimes = 5;
  const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
  std::vector<Tensors> parts;
  for (std::int64_t r = 0; r < replicas; ++r)
    parts.push_back({at::ones({elements})});
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimes; ++i) {
    const SteadyTime start = std::chrono::steady_clock::now();
    sum_in_order(parts);
    least = std::min(least, seconds_since(start));
  }
  return least;
}

namespace {

/// Does it to the seconds of a block alone, and beside others.
void for_each_of(Costs& costs, std::size_t k,
                 const std::function<void(OpValues<double>&)>& change) {
  for (auto* of_blocks : {&costs.blocks, &costs.beside})
    if (k < of_blocks->size()) change((*of_blocks)[k].seconds);
}

/// Number of replicas, itself included, whose published tensors the first one
/// adds up or applies.
std::int64_t parts_of_exchange(const Experiment& experiment) {
  const ReplicaExchange& exchange =
      experiment.plans.front().blocks.front().exchange;
  if (exchange.graph.is_all()) return exchange.members;
  return std::ssize(peers_of(exchange.graph, exchange.members, 1, 0).from) + 1;
}

/// Adds the costs of exchanges in which all replicas meet: sums, or a step by
/// the gradients of each.
void add_meetings(const Experiment& experiment, Costs& costs) {
  const ReplicaExchange& exchange = experiment.replicas.kind.exchange;
  const auto parts =
      exchange.shards ? static_cast<double>(experiment.replicas.count) : 1.0;
  const std::int64_t from = parts_of_exchange(experiment);
  const bool steps_by_each =
      exchange.what == ExchangedTensors::gradients && !exchange.graph.is_all();
  const int rounds = exchange.rounds;
  for (std::size_t k = 0; k < costs.blocks.size(); ++k) {
    const double bytes = exchange.graph.is_all()
                             ? parameter_bytes(experiment, experiment.ranges[k])
                             : costs.exchange_bytes.at(k);
    const double seconds = steps_by_each ? 0 : seconds_of_sum(bytes, from);
    for_each_of(costs, k, [&](OpValues<double>& mine) {
      mine[Op::settle] = seconds / parts / rounds;
      mine[Op::update] /= parts;
      if (steps_by_each) mine[Op::update] *= static_cast<double>(from);
    });
  }
}

/// Steps that a centre makes of a gradient: of its replica alone, of it and its
/// neighbours, or of a part of a step.
double steps_of_gradient(const Experiment& experiment) {
  const ReplicaKind& kind = experiment.replicas.kind;
  if (kind.softsync > 0) {
    const std::int64_t gradients = experiment.replicas.count / kind.softsync;
    return 1 / static_cast<double>(gradients);
  }
  const bool teaches_peers =
      !kind.exchange.graph.is_all() && !kind.tells_staleness;
  return teaches_peers ? static_cast<double>(parts_of_exchange(experiment)) : 1;
}

/// Adds the centre's work. It updates by each gradient, or by several, and
/// serves one replica at a time, which takes the new weights; weights that
/// arrive it mixes with its own. No replica waits for another one's update.
void add_visits(const Experiment& experiment, Costs& costs) {
  const ReplicaKind& kind = experiment.replicas.kind;
  const bool makes_updates = kind.exchange.what == ExchangedTensors::gradients;
  const double updates = makes_updates ? steps_of_gradient(experiment) : 1;
  for (std::size_t k = 0; k < costs.blocks.size(); ++k) {
    const double bytes = costs.exchange_bytes.at(k);
    const double mixing = seconds_of_sum(bytes, 2);
    const double copying = seconds_of_sum(bytes, 1);
    for_each_of(costs, k, [&](OpValues<double>& mine) {
      mine[Op::settle] = updates < 1 || !makes_updates ? mixing : 0;
      if (!makes_updates) return;
      mine[Op::settle] += copying + updates * mine[Op::update];
      mine[Op::update] = copying;
    });
  }
}

}  // namespace

void add_exchanges(const Experiment& experiment, Costs& costs) {
  if (experiment.plans.front().blocks.front().exchange.served)
    add_visits(experiment, costs);
  else
    add_meetings(experiment, costs);
}

}  // namespace sluice::planner
