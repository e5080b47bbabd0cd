#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/messages/channel.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/crew.h"
#include "lib/engines/newcomers.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

/// What the engine is given, so that it knows no transport.
struct ProcessHooks {
  /// How the worker of a block is started; empty: something else starts it, and
  /// it comes by itself.
  std::function<ChildCommand(int block)> command;
  /// What each worker reads on its standard input: the run's secret.
  std::string input;
  /// Waits until all workers of the start have come, and gives their control
  /// links (index k-1). Calls `check` meanwhile, which throws when a worker has
  /// died.
  std::function<std::vector<Link>(const std::function<void()>& check)> meet;
  /// Called once, in wait(), when all workers have their links to each other.
  std::function<void()> all_joined = nullptr;
  /// The block under which the process of a block was started; empty: each has
  /// its own.
  std::function<int(int block)> process_of = nullptr;
  SeatNames names = {};
  /// A worker that makes no progress for so long, and waits for no other,
  /// hangs.
  Deadline deadline = std::chrono::minutes(10);
  /// Whether the run survives a loss: Supervision::survives_loss.
  bool survives_loss = false;
  bool may_wait_in_circle = false;  ///< as of the run's plan
  /// Blocks whose workers are there from the start, the first ones; 0: all.
  int started = 0;
  std::shared_ptr<Newcomers> newcomers = nullptr;  ///< as of Supervision
};

/// Runs the blocks of each executor, usually one, in a process of their own on
/// this host; no process is left when the crew is destroyed. While the caller
/// isn't in wait(), no worker is judged to hang. This and wait() throw
/// WorkerLostError, naming the worker that died, hung or couldn't be reached,
/// not one that waited for it; what a worker reported that failed for another
/// reason is thrown as UserError. The hooks live as long as the crew.
std::unique_ptr<Crew> make_process_crew(int blocks, ProcessHooks hooks,
                                        CrewEvents events,
                                        std::size_t ahead = 1);

}  // namespace sluice
