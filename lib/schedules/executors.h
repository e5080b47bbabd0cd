#pragma once

#include <vector>

#include "lib/schedules/plan.h"

namespace sluice {

// Executors are numbered from 0; executor e of E has the blocks e+1, e+1+E, ...
// The rows of schedules say how many there are; usually each has one block.

int executors_of(const RunPlan& plan);
/// From below.
std::vector<int> blocks_of(const RunPlan& plan, int executor);

/// All blocks of the block's executor, and the lowest of them.
std::vector<int> blocks_beside(const RunPlan& plan, int block);
int first_beside(const RunPlan& plan, int block);

/// What an executor does of a grant, in its order: what actions_of() says of
/// each of its blocks. Evaluation batches go through its blocks one after the
/// other, so that neighbours with as many blocks don't wait for each other.
std::vector<SeatAction> executor_actions(const RunPlan& plan, int executor,
                                         const Grant& grant);

}  // namespace sluice
