#pragma once

#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/worker_process.h"

namespace sluice {

/// A worker process of a Network, from joining the others to the end of its
/// control link. As run_worker_process(), but for the batches, which come with
/// the grants. Returns the exit status; throws what goes wrong before the
/// worker has joined.
int run_network_process(const Experiment& experiment,
                        const WorkerArguments& arguments);

/// Where a launcher leaves what its workers' policies draw (policy_draws.h).
std::string draws_of_network(const std::string& folder);

}  // namespace sluice
