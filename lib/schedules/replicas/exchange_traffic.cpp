#include "lib/schedules/replicas/exchange_traffic.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/peers.h"

namespace sluice {
namespace {

/// Number of sends by all replicas, in an exchange of sums or a part of one.
double sent_for_sum(const ReplicaExchange& exchange) {
  const int parts_sent = exchange.members / exchange.parts();  // in a step
  return static_cast<double>(exchange.halves() * parts_sent) *
         (exchange.members - 1);
}

/// Number of sends, when each replica sends to all others.
double sent_to_all(const ReplicaExchange& exchange) {
  return static_cast<double>(exchange.members) * (exchange.members - 1);
}

}  // namespace

/// Update n, from 1, applies the window that ends with turn n * accumulate - 1,
/// and has an exchange where that is before `each_before`, or where n + offset
/// is a multiple of `every`.
std::int64_t ExchangeTraffic::exchanges_in(std::int64_t turns) const {
  const ReplicaExchange& exchange = block_.exchange;
  if (exchange.what == ExchangedTensors::nothing) return 0;
  const std::int64_t updates = turns / block_.accumulate;
  const std::int64_t each =
      std::min(updates, exchange.each_before / block_.accumulate);
  const auto periods = [&](std::int64_t update) {
    return (update + exchange.offset) / exchange.every;
  };
  return each + periods(updates) - periods(each);
}

/// Windows in which the replicas adopt.
std::int64_t ExchangeTraffic::adoptions_in(std::int64_t turns) const {
  const std::int64_t updates = turns / block_.accumulate;
  return std::min(updates,
                  block_.exchange.adopts.times_by(updates * block_.accumulate));
}

double ExchangeTraffic::messages_in(std::int64_t exchanges) {
  const PeerGraph& graph = block_.exchange.graph;
  const int members = block_.exchange.members;
  if (!graph.pairs)
    return static_cast<double>(exchanges * messages_of(graph, members, 0));
  while (std::ssize(of_pairs_) <= exchanges)
    of_pairs_.push_back(of_pairs_.back() +
                        messages_of(graph, members, std::ssize(of_pairs_) - 1));
  return static_cast<double>(of_pairs_[static_cast<std::size_t>(exchanges)]);
}

double ExchangeTraffic::sent_in(std::int64_t turns) {
  const ReplicaExchange& exchange = block_.exchange;
  if (exchange.members == 1) return 0;
  const std::int64_t exchanges = exchanges_in(turns);
  if (exchange.served)
    return 2 * static_cast<double>(exchanges) * visitors_of(exchange);
  double sent =
      static_cast<double>(adoptions_in(turns)) * sent_to_all(exchange);
  if (!exchange.graph.is_all()) return sent + messages_in(exchanges);
  sent +=
      static_cast<double>(exchanges * exchange.rounds) * sent_for_sum(exchange);
  const std::int64_t updates = turns / block_.accumulate;
  if (exchange.shards)  // each gives the others its part of the weights
    sent += static_cast<double>(updates) * sent_for_sum(exchange);
  return sent;
}

bool clock_decides_work(const RunPlan& plan) {
  return std::any_of(plan.blocks.begin(), plan.blocks.end(),
                     [](const BlockPlan& block) {
                       return block.exchange.quorum.drops_late ||
                              !block.free.has_plain_inboxes();
                     });
}

}  // namespace sluice
