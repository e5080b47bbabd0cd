#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

namespace sluice {

// What several heads are built from. Members are called "conv1", "norm1",
// "conv2" and so on, or "linear1".

/// C -> C, size x size (odd), the map's size kept.
torch::nn::Conv2d convolution(std::int64_t channels, std::int64_t size,
                              bool bias);

/// count times [convolution, BatchNorm, ReLU] on [N, C, H, W].
torch::nn::Sequential convolutions(std::int64_t count, std::int64_t channels,
                                   std::int64_t size, bool bias = false);

/// count times [linear, BatchNorm, ReLU] on [N, C].
torch::nn::Sequential linear_layers(std::int64_t count, std::int64_t width);

/// `x` itself when there is nothing in the stack.
at::Tensor through(torch::nn::Sequential& stack, const at::Tensor& x);

}  // namespace sluice
