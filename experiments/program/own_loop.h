#pragma once

#include "experiments/runs/checkpoints/run_state.h"

namespace sluice {

/// What a sweep must know of a program whose training loop is its own.
struct OwnLoop {
  /// Reader of the config of one of the program's runs; empty: runs are those
  /// of configs.
  ReadRun read = {};
  bool continues = true;  ///< RunOfNetwork::resumable
};

}  // namespace sluice
