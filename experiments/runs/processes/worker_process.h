#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/seats/worker_arguments.h"
#include "lib/base/config_node.h"
#include "lib/engines/fed_source.h"
#include "lib/engines/seat_order.h"
#include "transport/wire/secret.h"

namespace sluice {

/// Source of the training's batches.
enum class Batches : std::uint8_t {
  of_data,     ///< the experiment's data set
  with_grants  ///< the launcher's program
};
/// The source that is fed with the batches of the grants; nullptr where none
/// come.
std::shared_ptr<FedSource> fed_by(Batches batches);

/// Work of a worker process that its launcher has started, from its first act
/// to the end of its control link. `read` makes the experiment of the run's
/// config. Returns the exit status; throws what goes wrong before it has joined
/// the others.
int run_worker_process(
    const WorkerArguments& arguments,
    const std::function<Experiment(const ConfigNode& config)>& read,
    Batches batches);
/// Worker process of `sluice run`.
int run_worker_process(const WorkerArguments& arguments);

/// Duties of a worker that is a rank, beside its block.
struct RankHooks {
  std::string terms = {};  ///< for RendezvousOptions::run
  /// Called when it has joined, with those of rank 0.
  std::function<void(const std::string& terms)> joined = nullptr;
};

/// Work of a worker, from joining the others to the last grant; it takes turns
/// with others of its process where there is an order. Returns the exit status;
/// throws what goes wrong before it has joined.
int work_in_run(const Experiment& experiment, const WorkerArguments& arguments,
                const Secret& secret, const RankHooks& rank = {},
                Batches batches = Batches::of_data,
                std::shared_ptr<SeatOrder> order = nullptr);

}  // namespace sluice
