#pragma once

#include <string>

#include "experiments/sweep/file/sweep.h"
#include "lib/base/config_node.h"

namespace sluice::sweep {

/// What [sweep] says, before the command line is laid over it.
struct SweepTable {
  Sweep sweep = {};
  bool zip = false;
  ConfigNode seeds = {};
};

/// What the config says; all defaults where it has no [sweep]. Throws
/// UserError.
SweepTable sweep_table_in(const ConfigNode& config);

/// The manual of [sweep].
std::string sweep_manual();

}  // namespace sluice::sweep
