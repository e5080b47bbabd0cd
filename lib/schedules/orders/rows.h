#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/table.h"
#include "lib/schedules/plan/added_delay.h"
#include "lib/schedules/plan/micro_batches.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/plan/traits.h"

namespace sluice {

/// What a schedule is made from, beside the traits of the boundaries.
struct ScheduleOptions {
  bool model_norm = false;  ///< RunPlan's
  /// Turns whose gradients are accumulated for an update.
  std::int64_t accumulate = 1;
  MicroBatches micro_batches = {};
  AddedDelay added = {};  ///< for "turns"
  /// For a pipeline: which weights its windows see, where it isn't those that
  /// the window begins with; and whether the pipe is empty after each turn.
  WeightsAtBackward window_weights = {};
  bool flush = true;
  bool recompute = false;  ///< BlockPlan's
  /// Number of executors that the blocks are dealt out to; 0: one for each
  /// block.
  int executors = 0;
  /// Most batches between forward and backward, as make_free_plan() takes it;
  /// for "free".
  std::int64_t in_flight = 0;
  Priority priority = Priority::backward;
  /// Batches of an update by block, in place of `accumulate`; empty:
  /// `accumulate` holds. For "free".
  std::vector<std::int64_t> accumulate_by_block = {};
};

/// Makes the plan of a run whose blocks order their actions so. Throws
/// UserError, in words, where the traits or options don't admit it.
using MakePlan = RunPlan (*)(const std::vector<Traits>& boundaries,
                             const ScheduleOptions& options);
using ScheduleRow = Row<MakePlan>;

/// All schedules. A new one is its BlockPlan::program, in a source of its own,
/// and its row.
std::span<const ScheduleRow> schedule_rows();

}  // namespace sluice
