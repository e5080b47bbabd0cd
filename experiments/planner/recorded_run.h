#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/runs/trace_file.h"
#include "lib/schedules/costs.h"
#include "lib/schedules/plan.h"

namespace sluice {

/// What the trace.json of a run says of its steady state.
struct RecordedRun {
  std::int64_t first_turn = 0;  ///< of those that are looked at
  std::int64_t end_turn = 0;
  double seconds_per_turn = 0;
  /// Index k-1: the part of the time in which the block computes, 0..1.
  std::vector<double> utilisation = {};
  /// Index k-1: means of what its actions took, without what they waited.
  std::vector<BlockCosts> blocks = {};
  /// Index k-1: how they differed from turn to turn, about a mean of 1.
  std::vector<Variation> variation = {};
  /// Index k-1 for boundary k: from the end of the action that sends a message
  /// until it is there, the mean of those that were waited for. Below 0 where
  /// one is there before its sender goes on; 0 when none was waited for, as in
  /// a run on the virtual clock.
  std::vector<double> latency = {};
};

/// Looks at the most turns in a row between which there was no evaluation, once
/// the pipe has filled. Throws UserError, naming `path`, when those are less
/// than 4. `is_busy_between`: a block that is between two actions doesn't wait
/// for anybody, as in threads and processes in lockstep, so that an action
/// takes what passed since the one before.
RecordedRun recorded_run(const TraceFile& trace, const RunPlan& plan,
                         const std::string& path, bool is_busy_between);

}  // namespace sluice
