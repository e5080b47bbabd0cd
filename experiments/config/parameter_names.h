#pragma once

#include <string>
#include <vector>

#include "experiments/config/experiment.h"

namespace sluice {

/// Names of all that the optimizer of block k steps, in any phase: its layers'
/// parameters ("layers.0.weight"), those of its heads, and of synthesizers and
/// input models that have no optimizer of their own.
std::vector<std::string> parameter_names(const Experiment& experiment,
                                         int block);

}  // namespace sluice
