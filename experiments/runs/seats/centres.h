#pragma once

#include <vector>

#include "experiments/config/experiment.h"
#include "lib/replicas/centre/centre.h"

namespace sluice {

/// What the centre of a block is made from which lies beside that replica.
CentreSetup centre_setup(const Experiment& experiment, int block, int host);

/// The replicas of a block that have a centre beside them.
std::vector<int> hosts_of(const Experiment& experiment, int block);

/// CentreSetup::counts_losses of all blocks.
bool count_losses(const Experiment& experiment);

}  // namespace sluice
