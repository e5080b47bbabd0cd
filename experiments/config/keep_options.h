#pragma once

#include <cstdint>
#include <optional>

#include "lib/metrics/early_stop.h"
#include "lib/schedules/plan/epochs.h"

namespace sluice {

/// Which checkpoints of a run stay. The last one always does.
struct KeepOptions {
  Rhythm every = {};                 ///< those at its turns; never: none
  std::int64_t last = 0;             ///< of those, so many, the newest; 0: all
  bool initial = false;              ///< that of turn 0
  std::optional<Measure> best = {};  ///< that of the best evaluation
};

}  // namespace sluice
