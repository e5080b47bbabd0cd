#pragma once

#include "experiments/config/experiment.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// What the upper end of the boundary above a block answers when nothing has
/// been trained yet: for code that runs the block without its neighbours.
Tensors answer_above(const Experiment& experiment, int block);

}  // namespace sluice
