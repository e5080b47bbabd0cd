#pragma once

#include <cstdint>

#include "lib/metrics/early_stop.h"

namespace sluice {

/// Condition for a timetable to go over to its next phase: at the end of a
/// turn's grant, or after an evaluation that has reached a threshold. What is
/// in flight is applied first.
struct Switch {
  std::int64_t turn = 0;  ///< turns done; 0: on a measure
  Measure measure = {};
  double threshold = 0;

  bool on_measure() const { return turn == 0; }
  bool reached(double value) const {
    return on_measure() &&
           (value == threshold || measure.is_better(value, threshold));
  }
};

}  // namespace sluice
