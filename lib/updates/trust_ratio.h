#pragma once

#include <ATen/core/Tensor.h>

namespace sluice {

/// |weight| / `length`, the ratio by which LARS and LAMB scale the step of a
/// parameter; 1 where either is 0. Both have no dimensions and are float64, on
/// the weight's device: a GPU is not waited for.
at::Tensor trust_ratio(const at::Tensor& weight, const at::Tensor& length);

/// Euclidean norm of all elements, in float64.
at::Tensor norm_of(const at::Tensor& tensor);

}  // namespace sluice
