#pragma once

#include "experiments/config/experiment.h"
#include "modules/partition.h"

namespace sluice {

/// Bytes of the parameters that train in a block's layers, which are made to
/// count them.
double parameter_bytes(const Experiment& experiment, const LayerRange& range);

/// Bytes of these layers that the replicas of a block send in a round of an
/// exchange.
double exchanged_bytes(const Experiment& experiment, const LayerRange& range);

/// Whether one of these layers has running statistics of BatchNorm.
bool has_batch_norm(const Experiment& experiment, const LayerRange& range);

/// Whether any layer of the model has BatchNorm.
bool has_batch_norm(const Experiment& experiment);

/// Whether all of these layers have an inverse.
bool is_reversible(const Experiment& experiment, const LayerRange& range);

}  // namespace sluice
