#pragma once

#include <cstddef>
#include <string>

#include "experiments/sweep/sweep_runs.h"

namespace sluice::sweep {

/// Differences between done runs of a cell that a mean over them takes for
/// chance: who computed them, or their data. "libtorch 2.11.0 and 2.13.0";
/// empty: nothing. Runs that are rows alone don't say.
std::string mixed_in(const SweepRuns& runs, std::size_t cell);

/// Number of runs that were done on other data than there is now, and the first
/// difference.
struct OutdatedRuns {
  std::size_t count = 0;
  std::string difference = {};
};
OutdatedRuns outdated_in(const SweepRuns& runs);

/// A line for each cell that mixes, and one on data that have changed; empty:
/// there is nothing to say.
std::string notes_on_mixed(const SweepRuns& runs);

}  // namespace sluice::sweep
