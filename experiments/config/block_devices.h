#pragma once

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// What the keys `device` and `threads` mean for these blocks. Throws UserError
/// for devices that don't go with them.
void derive_for_blocks(const Fields& top, Experiment& experiment);

}  // namespace sluice
