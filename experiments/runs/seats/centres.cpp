#include "experiments/runs/seats/centres.h"

#include <fmt/format.h>

#include "experiments/config/tables/lengths.h"
#include "lib/base/by_block.h"
#include "lib/replicas/replica_policy.h"

namespace sluice {

/// A neighbour is drawn, the best is chosen, and means are taken among the
/// replicas that are there.
bool count_losses(const Experiment& experiment) {
  const std::string& policy = experiment.replicas.policy;
  return policy == "gossip" || policy == "neighbours";
}

CentreSetup centre_setup(const Experiment& experiment, int block) {
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
  return {.members = members,
          .name = fmt::format("block {}", block),
          .quorum = exchange.quorum,
          .counts_losses = count_losses(experiment),
          .serves_once = deals_by_arrival && kind.tells_staleness,
          .make = [make = kind.make_centre, options, members,
                   seed = experiment.seed,
                   adopt_every = rhythm_of(kind.adopt_every, experiment).every](
                      const NamedTensors& parameters) {
            return make(parameters, {.options = options,
                                     .members = members,
                                     .seed = seed,
                                     .adopt_every = adopt_every});
          }};
}

}  // namespace sluice
