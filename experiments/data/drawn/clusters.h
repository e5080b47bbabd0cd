#pragma once

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// Samples of a mixture of Gaussians, made when they are wanted: each class has
/// several clusters, whose centres are drawn on the unit sphere. Inputs float32
/// [N, size], labels int64 [N].
MakeDataSet configure_clusters(Fields& options);

}  // namespace sluice
