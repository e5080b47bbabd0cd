#pragma once

#include <cstddef>
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

/// The gradient in the parameter's own memory layout: fused operations walk
/// both as flat arrays.
at::Tensor gradient_for(const at::Tensor& parameter,
                        const at::Tensor& gradient);

}  // namespace sluice
