#pragma once

#include <cstdint>
#include <string>

#include "lib/base/config.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// Turns that are cut into batches.
struct PipelineSettings {
  std::string order = "turns";  ///< a row of schedule_rows()
  std::int64_t micro_batches = 1;
  bool flush = true;
  /// Weights that the windows of `by_window` see; those of other settings see
  /// the latest.
  WeightsAtBackward weights = {};
  bool recompute = false;
  std::int64_t executors = 0;  ///< 0: as many as the order wants

  void describe(Fields& fields);
};

}  // namespace sluice
