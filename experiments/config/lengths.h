#pragma once

#include <cstdint>

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// Turns that so many epochs take.
std::int64_t turns_in(double epochs, const Experiment& experiment);

/// Turns from the begin of the run to the end of so many epochs.
std::int64_t turns_until(double epochs, const Experiment& experiment);

/// What the keys mean in turns, now that the data is known.
void derive_length(Experiment& experiment);

/// Cuts each turn into pipeline.micro_batches batches. Throws UserError where
/// the batches of the data set can't be cut so.
void cut_turns(const Fields& top, Experiment& experiment);

}  // namespace sluice
