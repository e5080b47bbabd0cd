#pragma once

#include <cstdint>

#include "experiments/config/experiment.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// What is drawn by keys, and so can't be drawn again by another program.
struct KeyedKinds {
  bool masks = false;        ///< of dropouts in the model
  bool labels = false;       ///< of Forward-Forward the wrong ones too
  bool projections = false;  ///< Lower::constants()
};

/// Random values of the first turns of an experiment, named and shaped as
/// `sluice data order --help` says.
NamedTensors keyed_tensors(const Experiment& experiment, std::int64_t turns,
                           const KeyedKinds& kinds);

}  // namespace sluice
