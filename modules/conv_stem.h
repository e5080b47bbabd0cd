#pragma once

#include <cstdint>

#include <torch/nn/modules/conv.h>

#include "lib/blocks/layer.h"

namespace sluice {

/// A square convolution of odd size, without bias, that keeps the map but for
/// its stride.
torch::nn::Conv2d plain_conv(std::int64_t inputs, std::int64_t outputs,
                             std::int64_t size, std::int64_t stride = 1);

/// What residual networks for small images begin with: a 3x3 convolution, a
/// norm and a ReLU, [N, C, H, W] -> [N, channels, H, W]. Weights of the
/// convolution are normal with deviation sqrt(2 / fan out).
LayerSpec conv_stem(const SampleShape& image, std::int64_t channels);

}  // namespace sluice
