#pragma once

#include <cstdint>

#include "experiments/config/experiment.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Kinds of random tensors that are drawn by keys, which another program can't
/// draw again.
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
