#pragma once

#include <cstdint>

#include "experiments/config/experiment.h"
#include "lib/base/config.h"
#include "lib/schedules/plan/epochs.h"

namespace sluice {

/// Turns of an epoch, by which all lengths in epochs become turns.
Epochs epochs_of(const Experiment& experiment);

/// Rhythm of what happens after every so many epochs; 0: never.
Rhythm rhythm_of(double epochs, const Experiment& experiment);

/// The first turn before which so many epochs are done.
std::int64_t turn_after(double epochs, const Experiment& experiment);

/// Turns of a run of so many epochs. What is left of its batches at the end,
/// fewer than replicas, is no turn.
std::int64_t turns_of_run(double epochs, const Experiment& experiment);

/// Number of batches, fewer than replicas, that the run leaves over of the
/// epochs asked for; 0 where its length is given in turns.
std::int64_t batches_left_over(const Experiment& experiment);

/// What the keys mean in turns, now that the data is known.
void derive_length(Experiment& experiment);

/// Cuts each turn into pipeline.micro_batches batches, and says of which size
/// the last one of an epoch is, for replicas' means. Throws UserError where
/// the batches of the data set can't be cut so.
void cut_turns(const Fields& top, Experiment& experiment);

}  // namespace sluice
