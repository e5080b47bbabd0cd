#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lib/blocks/source.h"
#include "lib/boundaries/observer.h"
#include "lib/engines/coordinator.h"
#include "lib/metrics/record.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// A replica is lost, and the others go on without it.
struct LostReplica {
  int replica = 2;
  std::size_t grants = 0;   ///< that all of its seats had carried out
  std::string reason = {};  ///< "the worker of block 1 of replica 3 ended ..."
};

/// A replica joins the run.
struct JoinedReplica {
  int replica = 2;
  std::size_t first_grant = 0;  ///< with which it begins
};

/// What a crew tells, on the thread that calls wait(); each may be empty.
struct CrewEvents {
  std::function<void(const Record&)> record = nullptr;
  /// The block has carried out its n-th grant, from 0.
  std::function<void(int block, std::size_t n)> reached = nullptr;
  /// Called with what worker processes send for it; seats in this process call
  /// the observer that they were made with themselves.
  std::shared_ptr<Observer> observer = nullptr;
  /// Called for a replica that is lost; grants given to it from then on count
  /// as reached.
  std::function<void(const LostReplica&)> lost = nullptr;
  std::function<void(const JoinedReplica&)> joined = nullptr;
};

/// Numbers of grants that a crew was given and has carried out.
struct CrewProgress {
  std::size_t given = 0;
  std::size_t fastest = 0;  ///< that some block has carried out
  std::size_t slowest = 0;  ///< that all have
  /// So many should lie ready beside the one that a block is at, so that it
  /// needn't wait for the next; 0 where blocks work only while wait() is
  /// called.
  std::size_t ahead = 0;
};

/// The executors of a run or a network on some engine. Used by one thread.
/// After an exception only the destructor may be called, which ends them.
class Crew {
 public:
  virtual ~Crew() = default;
  /// Every block shall carry out the grant, after those before it. `batches`
  /// are those of its only turn, in the order of the replicas, where no block
  /// has a source of its own; else there are none. Doesn't wait.
  virtual void give(const Grant& grant,
                    std::span<const Batch> batches = {}) = 0;
  /// Waits until some block has carried out a grant; returns at once when all
  /// have carried out all. Throws UserError with the block that failed and why;
  /// of worker processes that are lost, WorkerLostError (child_processes.h).
  virtual void wait() = 0;
  virtual CrewProgress progress() const = 0;
  /// The seats' own tensors, as they are when all that was given is carried
  /// out; nothing when they are in other processes.
  virtual std::optional<NamedTensors> weights() const = 0;
};

/// Tells the coordinator, which must outlive the crew.
CrewEvents events_for(Coordinator& coordinator);

/// A sink that writes records into those of a crew.
std::shared_ptr<Sink> sink_for(const CrewEvents& events);

/// Gives what the coordinator grants until it grants no more and all is carried
/// out. The crew has events_for() the same coordinator. Throws what wait()
/// throws.
void run_to_end(Crew& crew, Coordinator& coordinator);

}  // namespace sluice
