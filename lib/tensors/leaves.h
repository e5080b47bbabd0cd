#pragma once

#include "lib/tensors/tensors.h"

namespace sluice {

/// Tensors with these values, without their graph.
inline Tensors leaves_of(const Tensors& tensors, bool ask_for_gradients) {
  Tensors leaves;
  for (const at::Tensor& tensor : tensors) {
    leaves.push_back(tensor.detach());
    if (ask_for_gradients && tensor.is_floating_point())
      leaves.back().requires_grad_();
  }
  return leaves;
}

}  // namespace sluice
