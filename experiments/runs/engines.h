#pragma once

#include <functional>
#include <optional>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/assembly.h"
#include "experiments/runs/ranks/rank.h"
#include "lib/engines/coordinator.h"
#include "lib/metrics/record.h"

namespace sluice {

/// Where a run is, and how its worker processes are started.
struct RunPlace {
  std::string folder;  ///< workers read their config there
  RunFiles files;
  std::string program;      ///< the file that worker processes are started from
  std::string faults = {};  ///< that worker processes make happen
  std::optional<Rank> rank = {};  ///< our 0, when others started the workers
  /// Called once all workers have joined, whom ranks may refuse until then;
  /// under `processes` only.
  std::function<void()> on_begin = nullptr;
  bool is_forecast = false;  ///< the blocks' memory was, in an earlier part
  /// Where the virtual clock was, as saved_clock_in() finds it.
  Record clock = {};
};

/// Runs the experiment's blocks on its engine until the coordinator grants no
/// more. First, where it says so or what it needs is known anyway, writes what
/// memory the blocks will need (rehearsal.h).
void run_engine(const Experiment& experiment, const RunPlace& place,
                Coordinator& coordinator);

}  // namespace sluice
