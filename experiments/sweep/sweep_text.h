#pragma once

#include <string>

#include "experiments/sweep/run_sweep.h"
#include "experiments/sweep/sweep_runs.h"

namespace sluice::sweep {

/// The plan before it starts: axes, cells and seeds, and what is done already.
std::string plan_text(const SweepRuns& runs, const SweepOptions& options,
                      const std::string& folder);

/// A line per cell with what stands in its folders.
std::string cells_text(const SweepRuns& runs);

/// Result of a run in words: "accuracy 93.20 %, loss 0.2134".
std::string figures_text(const records::Evaluation& evaluation);

/// A line per cell: mean and standard deviation over the seeds that are done.
std::string results_text(const SweepRuns& runs);

}  // namespace sluice::sweep
