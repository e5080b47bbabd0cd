#pragma once

#include "experiments/runs/run_state.h"

namespace sluice {

/// What a sweep must know of a program whose training loop is its own.
struct OwnLoop {
  /// How the config of one of its runs is read; empty: runs are those of
  /// configs.
  ReadRun read = {};
  bool continues = true;  ///< RunOfNetwork::resumable
};

}  // namespace sluice
