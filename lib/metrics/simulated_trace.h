#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <tuple>

#include "lib/metrics/trace.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {

/// Writes a simulated timeline: an action is a slice with its batch and turn, a
/// message an arrow from the slice that sends it to the one that takes it.
class SimulatedTrace {
 public:
  /// `out` must outlive this object.
  SimulatedTrace(std::ostream& out, Plans plans);

  void write(const TimedAction& timed);

 private:
  using Key = std::tuple<MessageKind, int, int, std::int64_t>;

  Plans plans_;
  TraceWriter trace_;
  std::int64_t messages_ = 0;
  std::map<Key, std::int64_t> under_way_;
};

}  // namespace sluice
