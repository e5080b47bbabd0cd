#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/runs/folder/child_run.h"
#include "experiments/sweep/run_jobs.h"
#include "experiments/sweep/run_sweep.h"
#include "experiments/sweep/sweep_runs.h"

namespace sluice::sweep {

/// Places of this machine that runs take, one after another: each has its part
/// of the cores and GPUs. To be used by one thread, which lives as long as the
/// runs.
class Slots {
 public:
  /// Called from step() when a job has ended; it may add others.
  using EndCallback = std::function<void(const RunJob&, const RunEnd&)>;

  Slots(SweepRuns& runs, const SweepOptions& options, EndCallback ended);

  /// Adds a job behind those that wait.
  void add(const RunJob& job);
  /// Starts what there is a place for, and looks at what runs. Throws UserError
  /// when a run can't be started, or the disk is full.
  void step();
  /// Whether nothing runs, and nothing will.
  bool is_idle() const;

  /// Makes all runs save checkpoints and stop; none begins any more.
  void stop();
  /// Makes a run save a checkpoint and stop; false when it has not begun, and
  /// won't. A run is in one job at most.
  bool stop(const SweepRun& run);
  /// Stops runs as stop() does, and waits without a word.
  void stop_and_wait();

 private:
  struct Slot {
    MachineShare share = {};
    RunJob job = {};
    std::unique_ptr<ChildRun> child = nullptr;
    std::chrono::steady_clock::time_point started = {};
  };

  void start(Slot& slot, const RunJob& job);
  std::int64_t threads_for(const Slot& slot,
                           const Experiment& experiment) const;
  MachineShare share_for(const Slot& slot, const Experiment& experiment) const;
  void collect(Slot& slot);
  RunEnd end_of(const Slot& slot, const ChildEnd& end);
  RunEnd failed(const RunJob& job, const std::string& reason);

  SweepRuns& runs_;
  const SweepOptions& options_;
  EndCallback ended_;
  bool is_stopping_ = false;
  std::deque<RunJob> waiting_;
  std::vector<Slot> slots_;
};

}  // namespace sluice::sweep
