#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/processes/stop_signals.h"
#include "experiments/runs/ranks/rank.h"
#include "experiments/runs/sinks/run_sink.h"
#include "lib/base/files/folder_lock.h"
#include "lib/metrics/records.h"

namespace sluice {

struct RunOptions {
  std::string folder = {};  ///< empty: the next free one under runs/
  bool overwrite = false;
  /// Continue the run in `folder` from its last checkpoint.
  bool resume = false;
  /// The lock of lock_run(), where the config was read after it; nullptr: the
  /// lock is taken now.
  std::shared_ptr<FolderLock> lock = nullptr;
  /// How long to wait for another process that works in `folder`.
  std::chrono::milliseconds patience = LockOptions().patience;
  bool quiet = false;  ///< print nothing
  /// Faults that shall happen, as parse_injections() has them. Not kept for
  /// --resume.
  std::string faults = {};
  std::string door = {};  ///< as ProcessPlace has it
  /// Set: this is rank 0 of several, whose others are the workers.
  std::optional<Rank> rank = {};
  /// Called when all workers have joined: what fails later ends them too.
  std::function<void()> on_begin = nullptr;
  std::string command = {};  ///< for run.json
  std::string program = {};  ///< what workers are started from: kOwnImage
};

struct RunResult {
  std::string folder;
  bool complete = true;         ///< false when it was stopped before its end
  std::int64_t first_turn = 0;  ///< above 0 when it was continued
  std::optional<records::Evaluation> evaluation = {};  ///< the last one
  std::optional<records::Evaluation> best = {};  ///< that of checkpoints/best
  double seconds = 0;  ///< of training and evaluating, without start-up
  double samples_per_second = 0;
  std::optional<double> tokens_per_second = {};  ///< of texts
  std::optional<double> share_of_peak = {};      ///< records::Summary's
  BlocksOfRun blocks = {};                       ///< what each block has cost
  std::map<int, records::Forecast> forecasts =
      {};  ///< of memory, where there were some
  /// What the virtual engine's clock says of each block, under 0 of the run;
  /// empty when nothing took time.
  std::map<int, records::Clock> clock = {};
  /// Number of dropped activations by boundary, where a boundary may drop some.
  std::map<int, std::int64_t> dropped = {};
};

/// Trains, from the first turn (or that of the checkpoint) to the last, and
/// writes the run folder. A signal ends it after the turns that have been
/// granted, with a checkpoint to continue from. Throws UserError before
/// anything is written when the weights or checkpoint it starts with don't fit,
/// and DivergenceError (experiments/runs/sinks/divergence.h).
RunResult run(const Experiment& experiment, const RunOptions& options,
              StopSignals& signals);

}  // namespace sluice
