#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/by_block.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/plan/traits.h"

namespace sluice {

inline RunPlan pipeline_plan(const std::string& order,
                             const std::vector<Traits>& boundaries,
                             const MicroBatches& micro_batches) {
  return find_row(schedule_rows(), order, "order")
      .make(boundaries, {.micro_batches = micro_batches});
}

/// Whole turns of two samples a batch.
inline RunPlan pipeline_plan(const std::string& order,
                             const std::vector<Traits>& boundaries,
                             std::int64_t micro_batches) {
  return pipeline_plan(
      order, boundaries,
      MicroBatches{.count = micro_batches, .samples = 2 * micro_batches});
}

inline std::string first_turn_of(const RunPlan& plan, int block) {
  return to_text(actions_of(by_block(plan.blocks, block), {.end_turn = 1}));
}

}  // namespace sluice
