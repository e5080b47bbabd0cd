#pragma once

#include <functional>
#include <vector>

#include "lib/tensors/tensors.h"
#include "lib/updates/grouped.h"

namespace sluice {

/// Operands of one call of a fused operation, in the same order.
struct StepOperands {
  Tensors weights = {};
  Tensors gradients = {};
  std::vector<Tensors> states = {};  ///< each in the order of the weights
  Tensors steps = {};                ///< counts; empty: the rule has none

  void add(const at::Tensor& weight, const at::Tensor& gradient,
           const Tensors& of_states, const Tensors& of_steps);
};

/// ATen's fused operation of an update rule, for parameters of a group.
using FusedStep =
    std::function<void(const FusedGroup& group, const StepOperands& operands)>;

/// Steps the parameters that have a gradient, group by group, in place. Where
/// they have moved, those without a gradient are copied; the others are copied
/// and stepped by pieces that a core's cache holds between the two, so that the
/// next version of weights is written in one pass over memory: the same bits,
/// for an operation by element. `states` and `steps` (empty: none) are in the
/// order of the parameters.
void step_fused(const std::vector<FusedGroup>& groups,
                const NamedTensors& parameters, const MovedWeights& moved,
                const Tensors& gradients, const std::vector<Tensors>& states,
                const FusedStep& step, const Tensors& steps = {});

}  // namespace sluice
