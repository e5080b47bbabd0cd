#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "experiments/stop_signals.h"
#include "experiments/sweep/child_run.h"
#include "experiments/sweep/run_sweep.h"
#include "experiments/sweep/sweep_runs.h"

namespace sluice {

/// Keeps the slots of a sweep busy: starts runs, waits for them, says how each
/// has ended.
class Launcher {
 public:
  Launcher(SweepRuns& runs, const SweepOptions& options, StopSignals& signals);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// Returns when nothing is left to do, or all have stopped after a signal.
  void run();

 private:
  struct Job {
    SweepRun* run = nullptr;
    bool may_retry = false;
  };
  struct Slot {
    Share share = {};
    Job job = {};
    std::unique_ptr<ChildRun> child = nullptr;
    std::chrono::steady_clock::time_point started = {};
  };

  void queue();
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
  StopSignals& signals_;
  std::deque<Job> waiting_;
  std::vector<Slot> slots_;
  std::atomic<bool> is_stopped_ = false;
};

}  // namespace sluice
