#pragma once

#include "experiments/config/experiment.h"
#include "modules/partition.h"

namespace sluice {

/// Of the layers of a block, which are made for it.
double parameter_bytes(const Experiment& experiment, const LayerRange& range);

/// What the replicas of a block send of them in a round of an exchange.
double exchanged_bytes(const Experiment& experiment, const LayerRange& range);

/// Whether one of these layers has running statistics of BatchNorm.
bool has_batch_norm(const Experiment& experiment, const LayerRange& range);

/// The same of any layer of the model.
bool has_batch_norm(const Experiment& experiment);

/// Whether all of these layers have an inverse.
bool is_reversible(const Experiment& experiment, const LayerRange& range);

}  // namespace sluice
