#include "auxiliary_heads/stacks.h"

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>

#include "lib/blocks/fused_linear.h"

namespace sluice {
namespace {

torch::nn::ReLU in_place_relu() {
  return torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true));
}

}  // namespace

torch::nn::Conv2d convolution(std::int64_t channels, std::int64_t size,
                              bool bias) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels, size)
                               .padding(size / 2)
                               .bias(bias));
}

torch::nn::Sequential convolutions(std::int64_t count, std::int64_t channels,
                                   std::int64_t size, bool bias) {
  torch::nn::Sequential stack;
  for (std::int64_t i = 1; i <= count; ++i) {
    stack->push_back(fmt::format("conv{}", i),
                     convolution(channels, size, bias));
    stack->push_back(fmt::format("norm{}", i),
                     torch::nn::BatchNorm2d(channels));
    stack->push_back(fmt::format("relu{}", i), in_place_relu());
  }
  return stack;
}

torch::nn::Sequential linear_layers(std::int64_t count, std::int64_t width) {
  torch::nn::Sequential stack;
  for (std::int64_t i = 1; i <= count; ++i) {
    stack->push_back(fmt::format("linear{}", i), FusedLinear(width, width));
    stack->push_back(fmt::format("norm{}", i), torch::nn::BatchNorm1d(width));
    stack->push_back(fmt::format("relu{}", i), in_place_relu());
  }
  return stack;
}

at::Tensor through(torch::nn::Sequential& stack, const at::Tensor& x) {
  return stack->is_empty() ? x : stack->forward(x);
}

}  // namespace sluice
