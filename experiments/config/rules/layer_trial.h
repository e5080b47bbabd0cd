#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/blocks/layer.h"
#include "lib/tensors/precision.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// A layer that can't be trained, and why.
struct LayerFault {
  std::int64_t layer = 0;
  std::string text = {};  ///< what LibTorch says
};

/// Result of a training forward of zeros.
struct LayerTrial {
  std::vector<Tensors> outputs = {};  ///< of the layers before the fault
  std::optional<LayerFault> fault = {};
};

/// Forwards a batch of so many samples through layers of the model that are
/// made for it, in this thread and on the CPU. A fault is what a layer throws,
/// or running statistics that become NaN, as those of one value per channel do.
/// LibTorch's process-wide generator is as it was afterwards.
LayerTrial try_layers(const Model& model, std::int64_t samples,
                      Precision precision = Precision::fp32);

}  // namespace sluice
