#include "lib/metrics/early_stop.h"

#include <limits>

namespace sluice {

bool Measure::is_better(double value, double best, double margin) const {
  return name == "loss" ? value < best - margin : value > best + margin;
}

void EarlyStop::evaluated(const Record& evaluation) {
  const double value = evaluation.number(
      options_.measure.name, std::numeric_limits<double>::quiet_NaN());
  const bool is_first = !best_ && value == value;
  if (is_first || (best_ && options_.measure.is_better(value, *best_,
                                                       options_.min_delta))) {
    best_ = value;
    without_progress_ = 0;
  } else {
    ++without_progress_;
  }
}

}  // namespace sluice
