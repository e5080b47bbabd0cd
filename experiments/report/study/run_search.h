#pragma once

#include <string>
#include <vector>

namespace sluice::report {

/// What lies below a folder: sweeps, and runs that belong to none, in the order
/// of their names (run-2 before run-10).
struct FoundRuns {
  std::vector<std::string> sweeps = {};  ///< folders that have a sweep.json
  std::vector<std::string> runs = {};    ///< folders that have a config.toml
};

/// Throws UserError when there is no such folder, or it has neither.
FoundRuns find_runs(const std::string& folder);

}  // namespace sluice::report
