#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "experiments/sweep/child_run.h"
#include "experiments/sweep/run_sweep.h"
#include "experiments/sweep/sweep_runs.h"

namespace sluice {

/// Keeps the slots of a sweep busy: starts runs, waits for them, says how each
/// has ended.
class Launcher {
 public:
  /// `is_stopped`: the runs shall stop, with checkpoints, and none begin.
  Launcher(SweepRuns& runs, const SweepOptions& options,
           const std::atomic<bool>& is_stopped);

  /// Does the runs of these cells to their ends, or to a rung of so many epochs
  /// (0: their ends). Returns when nothing is left to do, or all have stopped.
  void run(const std::vector<std::size_t>& cells, double rung);

 private:
  struct Job {
    SweepRun* run = nullptr;
    std::int64_t pause_turn = 0;  ///< at the rung; 0: at its end
    bool may_retry = false;
  };
  struct Slot {
    Share share = {};
    Job job = {};
    std::unique_ptr<ChildRun> child = nullptr;
    std::chrono::steady_clock::time_point started = {};
  };

  void queue(SweepRun& run, double rung);
  void work();
  void stop_all();
  void fill_slots();
  void start(Slot& slot, Job job);
  Share share_for(const Slot& slot, const Experiment& experiment) const;
  bool some_run() const;
  void collect(Slot& slot);
  void finish(Slot& slot, const ChildEnd& end);
  void fail(const Job& job, const std::string& reason);
  void say(const SweepRun& run, const std::string& text) const;

  SweepRuns& runs_;
  const SweepOptions& options_;
  const std::atomic<bool>& is_stopped_;
  std::deque<Job> waiting_;
  std::vector<Slot> slots_;
};

}  // namespace sluice
