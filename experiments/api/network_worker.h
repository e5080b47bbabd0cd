#pragma once

#include "experiments/api/network_options.h"
#include "experiments/runs/processes/worker_process.h"

namespace sluice {

/// Work of a worker process of a program of one's own
/// (take_worker_arguments()), from its first act to its end: it makes its block
/// of the layers, the example and the parts of these options, and has all else
/// from the launcher. Returns the exit status; throws what goes wrong before it
/// has joined the others.
int work_for_network(const NetworkOptions& options,
                     const WorkerArguments& arguments);

}  // namespace sluice
