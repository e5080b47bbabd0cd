#pragma once

#include <cstdint>

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// Throws UserError for what an assistant of the source (data.assist) doesn't
/// go with: samples that are no inputs with a class, and schedules or
/// boundaries by which the loss of each sample doesn't come down to block 1 a
/// fixed number of turns later. To be called with the plans made.
void check_assistant(const Experiment& experiment, const Fields& top);

/// The lag of the assistant, in turns: that of the config or, where it says
/// none, the smallest by which all losses have come in all phases.
std::int64_t lag_of_assistant(const Experiment& experiment);

}  // namespace sluice
