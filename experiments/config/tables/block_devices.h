#pragma once

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// Derives devices of the blocks from the key `device`. Throws UserError for
/// devices that don't go with them.
void derive_for_blocks(const Fields& top, Experiment& experiment);
/// Derives the threads of an executor, where the key `threads` has none, from
/// the number of executors in the plans.
void derive_threads(Experiment& experiment);

}  // namespace sluice
