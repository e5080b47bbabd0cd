#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "lib/base/error.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Weights, state or a loss has NaN or infinities: nothing follows from it.
class NonFiniteError : public Error {
 public:
  using Error::Error;
};

/// Whether no element is NaN or infinite. A tensor of two dimensions or more
/// that has zeros and infinities of one sign alone passes: the mask of an
/// attention, which a scripted model keeps as a buffer.
bool is_finite(const at::Tensor& tensor);

/// Name of the first tensor that isn't finite; empty: all are.
std::string first_not_finite(const NamedTensors& tensors);

}  // namespace sluice
