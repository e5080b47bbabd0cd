#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/base/files/output_file.h"
#include "lib/metrics/records.h"
#include "lib/metrics/simulated_trace.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

/// Watches a run of the virtual engine whose actions take time: writes the
/// folder's trace.json, beside every checkpoint where the clock is, as a
/// records::SavedClock, and at the end what the clock says of the run.
class VirtualClock {
 public:
  /// `saved`: of the checkpoint that the run continues from; without one the
  /// clock begins at 0. The experiment and the costs
  /// must outlive it.
  VirtualClock(const Experiment& experiment, const Costs& costs,
               std::string folder, std::shared_ptr<Sink> sink,
               const std::optional<records::SavedClock>& saved);

  /// The clock's state where the run begins.
  const SavedClock& start() const { return start_; }
  void watch(const TimedAction& timed);
  /// Writes a records::Clock of the run and one per block, of all parts of a
  /// run that was continued.
  void report(double seconds) const;

 private:
  const RunPlan& plan_of(const Action& action) const;
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
  SeatNames seats_;
  std::vector<double> busy_;  // by seat
  /// When gradients came to a seat: (seat, batch).
  std::map<std::pair<int, std::int64_t>, double> gradients_;
  /// Clocks that are being saved, by turn, until all blocks have saved theirs.
  std::map<std::int64_t, records::SavedClock> saving_;
};

/// The last clock that was saved after `turn` turns.
std::optional<records::SavedClock> saved_clock_in(
    const std::vector<Record>& history, std::int64_t turn);

}  // namespace sluice
