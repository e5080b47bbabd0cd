#pragma once

#include "experiments/experiment.h"
#include "lib/schedules/costs.h"

namespace sluice {

/// The experiment's costs, with the seconds of its blocks' actions as a few
/// turns of its own workers take on this machine, one block after the other:
/// the medians of the turns after the first. Heads and replays are part of what
/// a backward takes. Also measures the whole model in one block. Once per
/// process prepare_process() comes before it.
Costs calibrated(const Experiment& experiment);

}  // namespace sluice
