#pragma once

#include "experiments/config/experiment.h"
#include "lib/base/config.h"

namespace sluice {

/// Throws UserError for what goes with one replica only. To be called with the
/// plans made.
void check_replicas(const Experiment& experiment, const Fields& top);

/// Whether replicas may join the run, by `sluice join`, while it goes on: at
/// the places of those that it has lost, or never had.
bool can_be_joined(const Experiment& experiment);

/// Says in `left_out` that with one replica, which sends nothing,
/// nothing is compressed.
void tell_lone_compressor(Experiment& experiment);

}  // namespace sluice
