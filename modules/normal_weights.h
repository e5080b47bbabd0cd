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

/// sqrt(2 / fan out) of a kernel [out, in, height, width]: He et al. 2015,
/// arXiv:1502.01852.
double fan_out_deviation(std::string_view name, const at::Tensor& kernel);
/// sqrt(1 / fan in) of a weight [out, in, ...]: LeCun et al. 1998, Efficient
/// BackProp, section 4.6.
double fan_in_deviation(std::string_view name, const at::Tensor& weight);

/// Draws the weights of two or more dimensions from a normal distribution with
/// mean 0, each with a generator of its own (key and name); vectors called
/// "weight" (of norms) are 1, other vectors 0.
void initialise_normal(torch::nn::Module& module, std::uint64_t key,
                       const Deviation& deviation);

}  // namespace sluice
