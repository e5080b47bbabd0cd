#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/channel.h"
#include "lib/boundaries/witness.h"
#include "lib/engines/coordinator.h"

namespace sluice {

/// What the engine is given, so that it knows no transport.
struct ProcessHooks {
  /// The command line of the worker of a block; empty: something else starts
  /// it, and it comes by itself.
  std::function<std::vector<std::string>(int block)> command;
  /// What each worker reads on its standard input: the run's secret.
  std::string input;
  /// Waits until all workers have come, and gives their control links (index
  /// k-1). Calls `check` meanwhile, which throws when a worker has died.
  std::function<std::vector<Link>(const std::function<void()>& check)> meet;
  /// Called once, from a thread of the engine's, when all workers have their
  /// links to each other.
  std::function<void()> all_joined = nullptr;
  /// A worker that makes no progress for so long, and waits for nobody, hangs.
  Deadline deadline = std::chrono::minutes(10);
};

/// Runs each block in a process of its own on this host until the coordinator
/// grants no more. No process is left when it returns or throws. Throws
/// WorkerLost (lib/engines/child_processes.h), naming the worker that died,
/// hung or couldn't be reached, not one that waited for it; what a worker
/// reported that failed for another reason is thrown as UserError.
void run_processes(int blocks, const ProcessHooks& hooks,
                   Coordinator& coordinator,
                   std::shared_ptr<Witness> witness = nullptr);

}  // namespace sluice
