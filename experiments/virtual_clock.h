#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "experiments/experiment.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/simulated_trace.h"

namespace sluice {

/// Watches a run of the virtual engine whose actions take time: writes the
/// folder's trace.json, and at the end what the clock says of the run.
class VirtualClock {
 public:
  /// The experiment and the costs must outlive it.
  VirtualClock(const Experiment& experiment, const Costs& costs,
               const std::string& folder);

  void watch(const TimedAction& timed);
  /// Records of kind "clock": one of the run (seconds, samples_per_second,
  /// speed_up over one block), and one per block (busy_s, utilisation).
  void report(double seconds, Sink& sink) const;

 private:
  const Experiment& experiment_;
  const Costs& costs_;
  std::ofstream file_;
  std::optional<SimulatedTrace> trace_;
  std::int64_t turns_ = 0;
  std::vector<double> busy_;  // index k-1
};

}  // namespace sluice
