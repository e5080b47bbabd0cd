#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/channel.h"
#include "lib/coordinator.h"
#include "lib/witness.h"

namespace sluice {

/// What the engine is given, so that it knows no transport.
struct ProcessHooks {
  /// The command line of the worker of a block.
  std::function<std::vector<std::string>(int block)> command;
  /// Waits until all workers have come, and gives their control links (index
  /// k-1). Calls `check` meanwhile, which throws when a worker has died.
  std::function<std::vector<Link>(const std::function<void()>& check)> meet;
};

/// Runs each block in a process of its own on this host until the coordinator
/// grants no more. Throws what the worker reported that failed first, or which
/// one was killed; no process is left by then.
void run_processes(int blocks, const ProcessHooks& hooks,
                   Coordinator& coordinator,
                   std::shared_ptr<Witness> witness = nullptr);

}  // namespace sluice
