#pragma once

#include "experiments/config/experiment.h"
#include "lib/replicas/centre/centre.h"

namespace sluice {

/// What the centre of a block is made from, to which the block's replicas come.
CentreSetup centre_setup(const Experiment& experiment, int block);

/// CentreSetup::counts_losses of all blocks.
bool count_losses(const Experiment& experiment);

}  // namespace sluice
