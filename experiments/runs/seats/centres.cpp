#include "experiments/runs/seats/centres.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/tables/lengths.h"
#include "lib/base/by_block.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/plan/exchange_table.h"

namespace sluice {

/// A neighbour is drawn, the best is chosen, and means are taken among the
/// replicas that are there.
bool count_losses(const Experiment& experiment) {
  const std::string& policy = experiment.replicas.policy;
  return policy == "gossip" || policy == "neighbours";
}

std::vector<int> hosts_of(const Experiment& experiment, int block) {
  std::vector<int> hosts;
  for (const BlockPlan& plan : experiment.plans.front().blocks)
    if (plan.block == block && has_centre(plan)) hosts.push_back(plan.replica);
  return hosts;
}

CentreSetup centre_setup(const Experiment& experiment, int block, int host) {
  const ReplicaKind& kind = experiment.replicas.kind;
  const ReplicaExchange& exchange =
      by_block(experiment.plans.front().blocks, block).exchange;
  const OptimizerOptions& optimizer = by_block(experiment.optimizers, block);
  const UpdateOptions options{.optimizer = optimizer,
                              .mean = experiment.accumulate_mean,
                              .clipped = clips_own(optimizer, exchange.what)};
  const int members = static_cast<int>(experiment.replicas.count);
  const bool deals_by_arrival =
      by_block(experiment.plans.front().blocks, block).micro_batches.by_arrival;
  std::set<int> outside;
  for (const int other : hosts_of(experiment, block))
    if (other != host) outside.insert(other);
  return {.members = members,
          .name = fmt::format("block {}", block),
          .quorum = exchange.quorum,
          .counts_losses = count_losses(experiment),
          .serves_once = deals_by_arrival && kind.tells_staleness,
          .is_of_several = exchange.visits_partners,
          .outside = std::move(outside),
          .make = [make = kind.make_centre, options, members, host,
                   seed = experiment.seed,
                   adopt_every = rhythm_of(kind.adopt_every, experiment).every](
                      const NamedTensors& parameters) {
            return make(parameters, {.options = options,
                                     .members = members,
                                     .host = host,
                                     .seed = seed,
                                     .adopt_every = adopt_every});
          }};
}

}  // namespace sluice
