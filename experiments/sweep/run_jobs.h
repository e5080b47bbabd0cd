#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/sweep/run_sweep.h"
#include "experiments/sweep/sweep_runs.h"

namespace sluice::sweep {

/// A run that is to be done.
struct RunJob {
  SweepRun* run = nullptr;
  std::int64_t pause_turn = 0;  ///< at the rung; 0: at its end
  bool may_retry = false;       ///< once more, when it fails
};

/// End of a job.
struct RunEnd {
  enum class Kind {
    done,
    at_rung,
    stopped,  ///< it can be continued, or begins anew
    again,    ///< it failed, and is tried once more
    failed
  };
  Kind kind = Kind::done;
  std::string reason = {};  ///< why it failed
  double seconds = 0;       ///< done: the last process of the run
};

/// The job by which a run comes to its end, or to a rung of so many epochs (0:
/// its end); nothing when it is there, or has failed for good.
std::optional<RunJob> job_of(SweepRun& run, double rung, const SweepRuns& runs,
                             const SweepOptions& options);

/// Whether a run goes on from a checkpoint of its own; else it begins anew.
bool is_continued(const SweepRun& run, const Experiment& experiment,
                  const SweepOptions& options);

/// The runs of these cells that are yet to be done, to their ends or to a rung
/// of so many epochs (0: their ends).
std::vector<RunJob> jobs_of(SweepRuns& runs,
                            const std::vector<std::size_t>& cells, double rung,
                            const SweepOptions& options);

/// Marks a run as failed: what the next sweep will know of it.
void mark_failed(SweepRun& run, const std::string& reason);

/// Prints the line of a job that has ended.
void print_end_of(const RunJob& job, const RunEnd& end, const SweepRuns& runs);

/// Prints a line of a run, with how far the sweep is.
void print_line(const SweepRun& run, const std::string& text,
                const SweepRuns& runs);

}  // namespace sluice::sweep
