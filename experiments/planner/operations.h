#pragma once

#include <cstdint>

#include "experiments/config/experiment.h"
#include "lib/schedules/simulation/costs.h"

namespace sluice::planner {

/// Costs whose seconds are floating-point operations (two to a multiply-add) of
/// so many samples: of the blocks' layers, a backward twice those of a forward,
/// and of what works at their boundaries (policy_work()). Updates count
/// nothing.
Costs operations_of(const Experiment& experiment, std::int64_t samples = 1);

/// The experiment's costs on a device of one operation a second, for
/// costs_on() a machine of known `flops`.
Costs computed_costs(const Experiment& experiment);

}  // namespace sluice::planner
