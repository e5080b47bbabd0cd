#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/sweep/file/sweep.h"
#include "experiments/sweep/sweep_runs.h"

namespace sluice::sweep {

/// The turn after which a run is compared at a rung: its first evaluation then
/// or later; 0: that is its end. Throws UserError for a run that can't be
/// continued from there.
std::int64_t turn_of_rung(const Experiment& experiment, double epochs);

/// Whether a run has been evaluated at its turn of a rung.
bool has_reached(const SweepRun& run, std::int64_t turn);

/// The best of `cells`, one in `keep` and at least one, in their order; of
/// equal ones the first. `scores` are theirs, NaN is the worst.
std::vector<std::size_t> best_cells(const std::vector<std::size_t>& cells,
                                    const std::vector<double>& scores,
                                    std::int64_t keep);

/// How good each of the cells is at a rung, the more the better: the mean over
/// the seeds that have got there; NaN when none has.
std::vector<double> scores_at(const SweepRuns& runs,
                              const std::vector<std::size_t>& cells,
                              const Halving& halving, double epochs);

/// "folder.pruned" says at which rung the run there was stopped.
std::string pruned_file(const std::string& run_folder);

}  // namespace sluice::sweep
