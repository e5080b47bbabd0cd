#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "experiments/sweep/launcher.h"
#include "experiments/sweep/run_jobs.h"
#include "experiments/sweep/run_sweep.h"
#include "experiments/sweep/sweep_runs.h"
#include "experiments/sweep/task_array.h"

namespace sluice::sweep {

/// Does runs as the tasks of a Slurm job array, which it submits, and waits for
/// them, if it shall. Tasks that an earlier sweep has submitted and that are
/// still in the queue are waited for too.
class SlurmLauncher final : public Launcher {
 public:
  /// `options.slurm` is there. `is_stopped`: it no longer waits; its tasks stay
  /// in the queue.
  SlurmLauncher(SweepRuns& runs, const SweepOptions& options,
                const std::string& folder, const std::atomic<bool>& is_stopped);

  /// Throws UserError when Slurm doesn't answer, or refuses.
  void run(const std::vector<std::size_t>& cells, double rung) override;

 private:
  void submit_all(const std::vector<RunJob>& jobs, double rung);
  std::string submit_array(const std::vector<RunJob>& jobs, double rung,
                           const std::string& after);
  ArrayTask task_of(const RunJob& job, double rung) const;
  std::string script_of(const TaskArray& array) const;
  void wait_for(std::vector<RunJob> jobs);
  void finish(const RunJob& job);

  SweepRuns& runs_;
  const SweepOptions& options_;
  std::string folder_;
  const std::atomic<bool>& is_stopped_;
};

/// Throws UserError for options that Slurm shall not be given: those that say
/// what is submitted, and where its output goes.
void check_slurm_options(const std::string& options);

}  // namespace sluice::sweep
