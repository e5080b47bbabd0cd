#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/base/output_file.h"
#include "lib/metrics/record.h"
#include "lib/metrics/simulated_trace.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// Watches a run of the virtual engine whose actions take time: writes the
/// folder's trace.json, beside every checkpoint where the clock is, as a record
/// of kind "saved_clock", and at the end what the clock says of the run.
class VirtualClock {
 public:
  /// `saved`: the saved_clock of the checkpoint that the run continues from, or
  /// an empty record: then the clock begins at 0. The experiment and the costs
  /// must outlive it.
  VirtualClock(const Experiment& experiment, const Costs& costs,
               std::string folder, std::shared_ptr<Sink> sink,
               const Record& saved);

  /// Where the run begins.
  const SavedClock& start() const { return start_; }
  void watch(const TimedAction& timed);
  /// Records of kind "clock": one of the run (seconds, samples_per_second,
  /// speed_up over one block), and one per block (busy_s, utilisation); of all
  /// parts of a run that was continued.
  void report(double seconds) const;

 private:
  void trace(const TimedAction& timed);
  void save(const TimedAction& checkpoint);

  const Experiment& experiment_;
  const Costs& costs_;
  std::string folder_;
  std::shared_ptr<Sink> sink_;
  SavedClock start_;
  OutputFile file_;
  std::optional<SimulatedTrace> trace_;
  std::int64_t turns_ = 0;
  std::vector<double> busy_;  // index k-1
  /// When gradients came to a block: (block, batch).
  std::map<std::pair<int, std::int64_t>, double> gradients_;
  std::map<std::int64_t, Record> saving_;  // by turn, until all blocks have
};

/// The saved_clock among the records of a run's turns before `turn`; empty when
/// there is none.
Record saved_clock_in(const std::vector<Record>& history, std::int64_t turn);

}  // namespace sluice
