#pragma once

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// Throws UserError for schedules of the learning rate that only a loop of
/// `sluice run` can follow.
void check_schedules(const Fields& top, const Experiment& experiment);

/// Throws UserError for a key by which `sluice run` decides what a loop of
/// one's own does by itself.
void refuse_loop(const Fields& top, const OwnNetwork& network);

/// Throws UserError for the config in the folder of a run whose loop is a
/// program's own.
void refuse_own_loop(const Fields& top);

/// Throws UserError for an unlock: the block above it opens the data itself,
/// but a training loop of the user's own brings batches to block 1 alone.
void refuse_unlocked(const Fields& top, const Experiment& experiment);

/// Throws UserError for keys of replicas that don't go turn by turn together,
/// as those of a loop of one's own do.
void refuse_clocks(const Fields& top, const Experiment& experiment);

/// Takes the keys of the loop out of the resolved config, so that reading it
/// gives the same network.
void leave_out_loop(const OwnNetwork& network, Experiment& experiment);

/// What a network's config says of the loop, for schedules and for its run.
void read_length(Fields& top, const OwnNetwork& network,
                 Experiment& experiment);

}  // namespace sluice
