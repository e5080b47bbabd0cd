#pragma once

#include <optional>

#include "experiments/config/experiment.h"
#include "experiments/runs/processes/crews.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/engines/coordinator.h"
#include "lib/metrics/records.h"

namespace sluice {

/// Where a run is, and how its worker processes are started.
struct RunPlace {
  RunFiles files;
  ProcessPlace processes;    ///< its folder on every engine
  bool is_forecast = false;  ///< the blocks' memory was, in an earlier part
  /// Where the virtual clock was, as saved_clock_in() finds it.
  std::optional<records::SavedClock> clock = {};
};

/// Runs the experiment's blocks on its engine until the coordinator grants no
/// more. First, where it says so or what it needs is known anyway, writes what
/// memory the blocks will need (rehearsal.h).
void run_engine(const Experiment& experiment, const RunPlace& place,
                Coordinator& coordinator);

}  // namespace sluice
