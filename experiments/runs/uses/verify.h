#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/processes/stop_signals.h"

namespace sluice {

struct VerifyOptions {
  std::vector<std::string> engines = {"virtual", "threads", "processes"};
  std::int64_t turns = 20;   ///< or an epoch's, or the run's, if that is less
  std::string program = {};  ///< what workers are started from
  /// Reads the config with these overrides.
  std::function<Experiment(const std::vector<std::string>& overrides)> read =
      nullptr;
  /// "ENGINE:KEY=VALUE": an override for that engine alone, to see that a
  /// difference is found.
  std::vector<std::string> changes = {};
};

/// A run on an engine.
struct VerifiedEngine {
  std::string engine;
  /// The first difference: in lockstep against the first engine, free against
  /// its own replay; empty: the same bits.
  std::string difference = {};
};

struct VerifyResult {
  bool is_free = false;  ///< compared with replays
  int blocks = 0;
  std::int64_t turns = 0;
  std::string maker = {};  ///< who computed all of them: text_of(Maker)
  std::vector<VerifiedEngine> engines = {};

  bool is_same() const;
};

/// Runs a config for a few turns on each engine, in temporary folders, and
/// compares a hash of each gradient and tensor of each block after each update.
/// Where blocks run free, each run is compared with its replay. Prints nothing.
/// Throws UserError when the options or the config can't be, or when a signal
/// stops it.
VerifyResult verify(const VerifyOptions& options, StopSignals& signals);

}  // namespace sluice
