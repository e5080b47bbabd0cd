#pragma once

#include <string>

#include "experiments/runs/processes/stop_signals.h"

namespace sluice {

struct JoinArguments {
  std::string folder = {};   ///< of the run
  std::string program = {};  ///< whose workers the replica has
  std::string faults = {};   ///< as WorkerArguments::faults
  double wait_seconds = 10;  ///< for a free place
};

/// Adds a replica to a run on this host that goes on: starts a worker for each
/// block, and waits for their ends. Returns the exit status: 0 when the run was
/// over, or a signal took the replica out. Throws UserError where no replica
/// can join.
int join_run(const JoinArguments& arguments, StopSignals& signals);

}  // namespace sluice
