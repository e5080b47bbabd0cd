#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/processes/worker_process.h"
#include "experiments/runs/ranks/rank.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/engines/crew.h"
#include "lib/engines/virtual_crew.h"

namespace sluice {

/// What the crews of runs and of networks of one's own are made of.
struct CrewParts {
  const Experiment& experiment;  ///< outlives the crew
  RunFiles files = {};
  CrewEvents events = {};
  /// Source of the training's batches.
  Batches batches = Batches::of_data;
  /// CrewProgress::ahead, where blocks have threads or processes; at most
  /// grants_ahead().
  std::size_t ahead = 1;
};

/// The clock of the virtual engine; by default it stands still.
struct VirtualTime {
  Costs costs = {};
  SavedClock saved = {};
  std::function<void(const TimedAction&)> watch = nullptr;
};

/// How worker processes are started, and where they find each other.
struct ProcessPlace {
  std::string folder = {};  ///< workers read their config there
  WorkerProgram program = {};
  std::string faults = {};  ///< that worker processes make happen
  /// Address of this host at which replicas of others may join; empty: those
  /// of this host.
  std::string door = {};
  std::optional<Rank> rank = {};  ///< our 0, when others started the workers
  /// Called once all workers have joined.
  std::function<void()> on_begin = nullptr;
  /// Called often until then; throws when there is no need to wait.
  std::function<void()> check = nullptr;
};

/// A crew that does everything in the thread that waits.
std::unique_ptr<VirtualCrew> make_virtual_crew(const CrewParts& parts,
                                               VirtualTime time = {});
/// A thread for each block. Where batches come with the grants, the workers are
/// made here, one by one: what makes their layers and policies is the caller's.
std::unique_ptr<Crew> make_thread_crew(const CrewParts& parts);
/// A process for each block; returns when all have joined.
std::unique_ptr<Crew> make_process_crew(const CrewParts& parts,
                                        const ProcessPlace& place);

}  // namespace sluice
