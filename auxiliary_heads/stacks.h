#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

namespace sluice {

// Stacks of layers that several heads are built from. Layers are named "conv1",
// "norm1", "conv2" and so on, or "linear1".

/// A convolution C -> C with a size x size kernel (odd); maps keep their size.
torch::nn::Conv2d convolution(std::int64_t channels, std::int64_t size,
                              bool bias);

/// A stack of `count` times [convolution, BatchNorm, ReLU] on [N, C, H, W].
torch::nn::Sequential convolutions(std::int64_t count, std::int64_t channels,
                                   std::int64_t size, bool bias = false);

/// A stack of `count` times [linear, BatchNorm, ReLU] on [N, C].
torch::nn::Sequential linear_layers(std::int64_t count, std::int64_t width);

/// The output of the stack for `x`; `x` itself when the stack is empty.
at::Tensor through(torch::nn::Sequential& stack, const at::Tensor& x);

}  // namespace sluice
