#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "experiments/api/run_of_network.h"
#include "experiments/config/experiment.h"
#include "experiments/runs/checkpoints/checkpoint_keeper.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/sinks/run_sink.h"
#include "experiments/runs/sinks/status_file.h"
#include "experiments/runs/sinks/timeline.h"
#include "lib/metrics/record.h"
#include "lib/metrics/time_spent.h"

namespace sluice {

/// The run folder of a network of one's own, with the files of `sluice run`
/// (experiments/runs/folder/run_folder.h). Used by one thread.
class NetworkRun {
 public:
  /// Makes the folder, or takes up the run in it. The experiment, which must
  /// outlive it, has been read for this (OwnNetwork::writes_run). Throws
  /// UserError, before anything is written, when another run is there, or when
  /// that of the folder can't be taken up.
  NetworkRun(const Experiment& experiment, const RunOfNetwork& where);
  /// Says in status.json that the run has stopped or, while an exception is
  /// thrown, failed, unless finish() was called.
  ~NetworkRun();
  NetworkRun(const NetworkRun&) = delete;
  NetworkRun& operator=(const NetworkRun&) = delete;

  /// What the network begins with; turn 0 in a new run.
  const RestartPoint& from() const { return from_; }

  /// Records of the crew, and of evaluations.
  void write(const Record& record);
  void add_samples(std::int64_t samples) { samples_ += samples; }
  /// Whether the config has a checkpoint saved after so many turns.
  bool saves_after(std::int64_t turns) const;
  /// Moves a whole checkpoint into the folder, and removes those that need not
  /// be kept. Returns where it is.
  std::string take_checkpoint(const std::string& checkpoint, std::int64_t turn);
  /// The last record, and the marks of a run that is complete.
  void finish();

 private:
  RunFolder open(const RunOfNetwork& where);
  RunFolder reopen(const RunOfNetwork& where);

  const Experiment& experiment_;
  RestartPoint from_;
  RunFolder folder_;
  CheckpointKeeper keeper_;
  const std::shared_ptr<RunSink> sink_;
  const std::shared_ptr<TimelineRecord> timeline_;
  const std::shared_ptr<StatusFile> status_;
  const SteadyTime started_ = std::chrono::steady_clock::now();
  const int exceptions_;  // that were being thrown when it began
  std::int64_t samples_ = 0;
  bool is_finished_ = false;
};

}  // namespace sluice
