#pragma once

#include <ATen/core/Tensor.h>

#include "lib/base/config.h"

namespace sluice {

/// Step of an outer optimizer, SGD, whose gradient is how far replicas have
/// moved, turned round.
struct OuterStep {
  double learning_rate = 1;
  double momentum = 0;
  bool nesterov = false;

  /// Whether the step is the movement itself.
  bool is_plain() const { return learning_rate == 1 && momentum == 0; }
  /// Reads `outer_lr` and `outer_momentum`.
  void describe(Fields& fields);
  /// Moves the weights by the gradient, as PyTorch's SGD does, at
  /// learning_rate * unit; `buffer` is that of the momentum.
  void apply(const at::Tensor& weights, const at::Tensor& buffer,
             const at::Tensor& gradient, double unit = 1) const;
};

}  // namespace sluice
