#pragma once

#include <vector>

#include "lib/schedules/plan/added_delay.h"
#include "lib/schedules/plan/micro_batches.h"
#include "lib/schedules/plan/traits.h"

namespace sluice {

// Checks of what boundaries, bottom first, can't have beside each other or
// beside a way to order their blocks. They throw UserError, naming the boundary
// and the remedy. What follows from sums over boundaries (a delay within a
// reach) is refused where they are made, in plan.cpp, reach.cpp and
// targets.cpp.

void check_lockstep(const std::vector<Traits>& boundaries, bool model_norm,
                    const MicroBatches& micro_batches);
/// Checks a delay that is added to them, if it is there.
void check_added(const std::vector<Traits>& boundaries, bool model_norm,
                 const AddedDelay& added, const MicroBatches& micro_batches);
void check_free(const std::vector<Traits>& boundaries);

}  // namespace sluice
