#pragma once

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// Where replicas.count is a list: checks that it fits the blocks, and that all
/// else goes with it, but for what plans and devices say. One of equal numbers
/// becomes that number. Throws UserError. To be called when the model is cut.
void derive_counts(const Fields& top, Experiment& experiment);

}  // namespace sluice
