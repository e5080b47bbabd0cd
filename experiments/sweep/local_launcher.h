#pragma once

#include <atomic>

#include "experiments/sweep/launcher.h"
#include "experiments/sweep/run_sweep.h"
#include "experiments/sweep/slots.h"
#include "experiments/sweep/sweep_runs.h"

namespace sluice::sweep {

/// Does runs on this machine, `options.jobs` at once.
class LocalLauncher final : public Launcher {
 public:
  /// `is_stopped`: the runs shall stop, with checkpoints, and none begin.
  LocalLauncher(SweepRuns& runs, const SweepOptions& options,
                const std::atomic<bool>& is_stopped);

  void run(const std::vector<std::size_t>& cells, double rung) override;

 private:
  void work();

  SweepRuns& runs_;
  const SweepOptions& options_;
  const std::atomic<bool>& is_stopped_;
  Slots slots_;
};

}  // namespace sluice::sweep
