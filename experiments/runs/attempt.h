#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/checkpoints/checkpoint_keeper.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/processes/crews.h"
#include "experiments/runs/sinks/divergence.h"
#include "experiments/runs/sinks/guarded_sink.h"
#include "experiments/runs/sinks/run_sink.h"
#include "experiments/runs/sinks/status_file.h"
#include "experiments/runs/sinks/timeline.h"
#include "lib/engines/coordinator.h"
#include "lib/metrics/sink.h"
#include "lib/metrics/time_spent.h"

namespace sluice {

/// A run from where it starts, or starts again after a worker was lost, to its
/// end; what it writes goes into the folder.
class Attempt {
 public:
  /// `others` are given every record beside the folder's own sinks. The
  /// experiment and the folder must outlive it.
  Attempt(const Experiment& experiment, RunFolder& folder,
          const RestartPoint& start, std::vector<std::shared_ptr<Sink>> others);
  /// Removes checkpoints that are not whole: no worker completes them any more.
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// `place`: its folder is the run's. Throws what run_engine() throws, and
  /// DivergenceError. Where the run's records can't be written any more it is
  /// stopped, with a checkpoint; then throws UserError.
  void run(ProcessPlace place);

  Coordinator& coordinator() { return coordinator_; }
  RunSink& sink() { return *sink_; }
  /// The evaluation of checkpoints/best; nothing when the config doesn't ask
  /// for it.
  const std::optional<records::Evaluation>& best_evaluation() const {
    return keeper_.best();
  }
  /// Seconds since the attempt began.
  double seconds() const { return seconds_since(started_); }

 private:
  RunLength length() const;
  bool is_free() const;
  void saved(std::int64_t turn);
  void tell_failure();
  void lost_file(const std::string& reason);
  [[noreturn]] void end_without_file();
  std::vector<std::shared_ptr<Sink>> with_files(
      std::vector<std::shared_ptr<Sink>> others);

  const Experiment& experiment_;
  RunFolder& folder_;
  const RestartPoint start_;
  std::string lost_;  // why its records can't be written any more
  std::shared_ptr<GuardedSink> metrics_;
  const SteadyTime started_ = std::chrono::steady_clock::now();
  CheckpointKeeper keeper_;
  const std::shared_ptr<DivergenceGuard> guard_;
  const std::shared_ptr<RunSink> sink_;
  const std::shared_ptr<TimelineRecord> timeline_;
  const std::shared_ptr<StatusFile> status_;
  const std::shared_ptr<ScheduleRecord> schedule_;
  Coordinator coordinator_;
};

}  // namespace sluice
