#include "lib/metrics/clock_offset.h"

#include <chrono>
#include <cmath>

namespace sluice {

double steady_seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double ClockOffset::correction() const {
  return std::abs(offset) > uncertainty ? offset : 0;
}

void ClockExchange::hears(double there, double here) {
  ++answers_;
  const double uncertainty = (here - asked_) / 2;
  if (uncertainty >= best_.uncertainty) return;
  best_ = {.offset = there - (asked_ + here) / 2, .uncertainty = uncertainty};
}

}  // namespace sluice
