#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace sluice {

/// The standard deviation of a weight of two or more dimensions, by name.
using Deviation =
    std::function<double(std::string_view name, const at::Tensor& weight)>;

/// Draws the weights of two or more dimensions from a normal distribution with
/// mean 0, each with a generator of its own (key and name); vectors called
/// "weight" (of norms) are 1, other vectors 0.
void initialise_normal(torch::nn::Module& module, std::uint64_t key,
                       const Deviation& deviation);

}  // namespace sluice
