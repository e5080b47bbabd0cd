#pragma once

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// Derives devices and threads of the blocks from the keys `device` and
/// `threads`. Throws UserError for devices that don't go with them.
void derive_for_blocks(const Fields& top, Experiment& experiment);

}  // namespace sluice
