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

Record to_record(const ClockOffset& clock, int block) {
  Record record;
  record.set("kind", "clock_offset");
  record.set("block", std::int64_t{block});
  record.set("offset_s", clock.offset);
  record.set("uncertainty_s", clock.uncertainty);
  return record;
}

ClockOffset clock_offset_from(const Record& record) {
  return {.offset = record.number("offset_s", 0),
          .uncertainty = record.number("uncertainty_s", 0)};
}

void ClockExchange::hears(double there, double here) {
  ++answers_;
  const double uncertainty = (here - asked_) / 2;
  if (uncertainty >= best_.uncertainty) return;
  best_ = {.offset = there - (asked_ + here) / 2, .uncertainty = uncertainty};
}

}  // namespace sluice
