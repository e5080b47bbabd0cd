#pragma once

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// Samples of any shape with nothing to be learned in them, made when they are
/// wanted: for plans, for speed, and for a first turn of a network whose data
/// are elsewhere. Inputs are normal, float32 [N, shape], and labels int64 [N];
/// or, with a context, tokens int64 [N, T] and those that follow.
MakeDataSet configure_noise(Fields& options);

}  // namespace sluice
