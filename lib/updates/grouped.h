#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "lib/updates/optimizer.h"

namespace sluice {

/// Parameters that share their settings, and so one call of a fused operation.
struct FusedGroup {
  double weight_decay = 0;
  double lr_scale = 1;
  std::vector<std::size_t> members;  ///< indices into the parameters
};

/// Every parameter in exactly one group; groups without members are left out.
std::vector<FusedGroup> fused_groups(const OptimizerOptions& options,
                                     const NamedTensors& parameters);

/// A parameter that a step moves.
struct ParameterStep {
  std::size_t index = 0;  ///< of the parameter
  at::Tensor weight = {};
  at::Tensor gradient = {};  ///< in the weight's layout; may be shared
  double weight_decay = 0;
  double rate = 0;  ///< of the step, scaled for the group
};

/// The parameters that have a gradient, group by group.
std::vector<ParameterStep> stepped(const std::vector<FusedGroup>& groups,
                                   const NamedTensors& parameters,
                                   const Tensors& gradients,
                                   double learning_rate);

/// The gradient plus the decay's, a tensor of its own; without decay the
/// gradient itself.
at::Tensor with_decay(const ParameterStep& each);

/// Parameters of a group that a step moves by operations of many tensors, all
/// in the same order.
struct JointStep {
  std::vector<std::size_t> indices = {};  ///< of the parameters
  Tensors weights = {};
  Tensors gradients = {};  ///< in the weights' layout; may be shared
  double weight_decay = 0;
  double rate = 0;  ///< of the step, scaled for the group

  /// Tensors of these parameters, from a list with one for each parameter.
  Tensors of(const Tensors& all) const;
};

/// The parameters that have a gradient: on a GPU a group at a time, where each
/// operation is one launch; on the CPU one by one, where a core's cache holds
/// what all operations of a parameter use.
std::vector<JointStep> stepped_together(const std::vector<FusedGroup>& groups,
                                        const NamedTensors& parameters,
                                        const Tensors& gradients,
                                        double learning_rate);

/// Gradients with weight decay: with_decay() of each.
Tensors with_decay(const JointStep& all);

/// Zeros in the layout of each parameter, and a count of steps for each. Counts
/// lie on the CPU, where a rule reads them without waiting for a GPU.
Tensors zeros_like(const NamedTensors& parameters);
Tensors counts_for(const NamedTensors& parameters);

/// Adds "<parameter>.<what>" for each parameter to `state`.
void add_state(const NamedTensors& parameters, std::string_view what,
               const Tensors& tensors, NamedTensors& state);

/// The gradient in the parameter's own memory layout: fused operations walk
/// both as flat arrays.
at::Tensor gradient_for(const at::Tensor& parameter,
                        const at::Tensor& gradient);

}  // namespace sluice
