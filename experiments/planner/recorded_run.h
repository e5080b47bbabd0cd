#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/runs/sinks/trace_file.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/simulation/costs.h"

namespace sluice::planner {

/// Measurements of a run's steady state, from its trace.json.
struct RecordedRun {
  std::int64_t first_turn = 0;  ///< of the turns that are evaluated
  std::int64_t end_turn = 0;
  double seconds_per_turn = 0;
  /// Index k-1: the part of the time in which the block computes, 0..1.
  std::vector<double> utilisation = {};
  /// Index k-1: mean durations of the block's actions, without waiting.
  std::vector<BlockCosts> blocks = {};
  /// Index k-1: how these durations varied from turn to turn, scaled to mean 1.
  std::vector<Variation> variation = {};
  /// Index k-1 for boundary k: mean time from the end of the action that sends
  /// a message until its arrival, over the messages that a block waited for.
  /// Negative where messages arrive before the sender's action ends; 0 when
  /// none was waited for, as in a run on the virtual clock.
  std::vector<double> latency = {};
};

/// Evaluates the longest sequence of turns without an evaluation, after the
/// pipe has filled. Throws UserError, naming `path`, when that has fewer than 4
/// turns. `is_busy_between`: the time between two actions of a block is not
/// waiting, as in threads and processes in lockstep, and is counted to the
/// second action.
RecordedRun recorded_run(const TraceFile& trace, const RunPlan& plan,
                         const std::string& path, bool is_busy_between);

}  // namespace sluice::planner
