#include "lib/updates/grouped.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <fnmatch.h>

namespace sluice {
namespace {

bool matches(const ParameterGroup& group, const std::string& name) {
  return std::any_of(group.match.begin(), group.match.end(),
                     [&](const std::string& pattern) {
                       return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
                     });
}

}  // namespace

std::vector<FusedGroup> fused_groups(const OptimizerOptions& options,
                                     const NamedTensors& parameters) {
  std::vector<FusedGroup> groups;
  for (const ParameterGroup& group : options.groups)
    groups.push_back({group.weight_decay, group.lr_scale, {}});
  groups.push_back({options.weight_decay, 1, {}});  // the rest
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::size_t chosen = 0;
    while (chosen < options.groups.size() &&
           !matches(options.groups[chosen], parameters[i].first))
      ++chosen;
    groups[chosen].members.push_back(i);
  }
  std::erase_if(groups,
                [](const FusedGroup& group) { return group.members.empty(); });
  return groups;
}

at::Tensor gradient_for(const at::Tensor& parameter,
                        const at::Tensor& gradient) {
  if (gradient.strides() == parameter.strides() &&
      gradient.scalar_type() == parameter.scalar_type())
    return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

}  // namespace sluice
