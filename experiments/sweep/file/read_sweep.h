#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/sweep/file/sweep.h"

namespace sluice::sweep {

/// What the command line says of a sweep beside its config.
struct SweepWords {
  std::vector<std::string> settings = {};  ///< "key=value" and "key=a,b,c"
  std::string seeds = {};                  ///< "5", or "1,5,9"; empty: none
  std::optional<std::int64_t> samples = {};
  bool zip = false;
};

/// The config file's table [sweep], and the command line over it: an axis there
/// takes the place of the one with its key. Throws UserError for everything
/// that is wrong with it; the configs of the cells are not read yet.
Sweep read_sweep(const std::string& path, const SweepWords& words);

}  // namespace sluice::sweep
