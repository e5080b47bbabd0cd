#pragma once

#include <string>

#include "experiments/experiment.h"
#include "experiments/stop_signals.h"

namespace sluice {

struct RunOptions {
  std::string folder = {};  ///< empty: the next free one under runs/
  bool overwrite = false;
  std::string command = {};  ///< for run.json
  std::string program =
      {};  ///< what workers are started from (argv[0] of ours)
};

struct RunResult {
  std::string folder;
  bool complete = true;  ///< false when it was stopped before its end
  double accuracy = 0;   ///< of the last evaluation, 0..1
  double loss = 0;
  double seconds = 0;  ///< of training and evaluating, without start-up
  double samples_per_second = 0;
};

/// Trains, from the first turn to the last, and writes the run folder. A signal
/// ends it after the turns that have been granted, with a checkpoint.
RunResult run(const Experiment& experiment, const RunOptions& options,
              StopSignals& signals);

}  // namespace sluice
