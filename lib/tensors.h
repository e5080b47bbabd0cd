#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace sluice {

/// What crosses a boundary: a tuple of activations, or a gradient for each.
using Tensors = std::vector<at::Tensor>;

/// Sizes of one sample, without the batch dimension: [C] or [C, H, W].
using SampleShape = std::vector<std::int64_t>;

}  // namespace sluice
