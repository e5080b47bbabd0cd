#pragma once

#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/measuring/rehearsal.h"
#include "lib/schedules/simulation/costs.h"

namespace sluice {

/// The experiment's costs, with the seconds of its blocks' actions as their
/// rehearsals took on this machine. Also measures the whole model in one block.
/// Once per process prepare_process() comes before it.
Costs calibrated(const Experiment& experiment,
                 const std::vector<Rehearsal>& rehearsals);

}  // namespace sluice
