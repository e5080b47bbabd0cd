#pragma once

#include <vector>

#include "lib/schedules/plan/plan.h"

namespace sluice {

/// Makes the backward of a batch out of the visits in which auxiliary variables
/// move (LowerTraits::sweeps), where they move more often than once. top-down:
/// visit j takes z_{k-1} from below, if it has moved, then the gradient from
/// above with which z_k moves, and sends a gradient down and z_k up. At once:
/// in visits 2j all blocks send gradients down, in visits 2j + 1 all variables
/// move. The last visit has the gradients of the weights. Throws UserError
/// where boundaries want different sweeps, or a gradient in several parts
/// arrives at a variable.
void add_sweeps(const std::vector<Traits>& boundaries, RunPlan& plan);

}  // namespace sluice
