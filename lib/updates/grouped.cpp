#include "lib/updates/grouped.h"

#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/name_pattern.h"

namespace sluice {

std::vector<FusedGroup> fused_groups(const OptimizerOptions& options,
                                     const NamedTensors& parameters) {
  std::vector<FusedGroup> groups;
  for (const ParameterGroup& group : options.groups)
    groups.push_back({group.weight_decay, group.lr_scale, {}});
  groups.push_back({options.weight_decay, 1, {}});  // the rest
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    std::size_t chosen = 0;
    while (chosen < options.groups.size() &&
           !matches_any(options.groups[chosen].match, parameters[i].first))
      ++chosen;
    groups[chosen].members.push_back(i);
  }
  std::erase_if(groups,
                [](const FusedGroup& group) { return group.members.empty(); });
  return groups;
}

std::vector<ParameterStep> stepped(const std::vector<FusedGroup>& groups,
                                   const NamedTensors& parameters,
                                   const Tensors& gradients,
                                   double learning_rate) {
  std::vector<ParameterStep> all;
  for (const FusedGroup& group : groups)
    for (const std::size_t i : group.members) {
      if (!gradients[i].defined()) continue;
      const at::Tensor& weight = parameters[i].second;
      all.push_back({.index = i,
                     .weight = weight,
                     .gradient = gradient_for(weight, gradients[i]),
                     .weight_decay = group.weight_decay,
                     .rate = learning_rate * group.lr_scale});
    }
  return all;
}

at::Tensor with_decay(const ParameterStep& each) {
  return each.weight_decay == 0
             ? each.gradient
             : each.gradient.add(each.weight, each.weight_decay);
}

Tensors JointStep::of(const Tensors& all) const {
  Tensors these;
  for (const std::size_t i : indices) these.push_back(all[i]);
  return these;
}

std::vector<JointStep> stepped_together(const std::vector<FusedGroup>& groups,
                                        const NamedTensors& parameters,
                                        const Tensors& gradients,
                                        double learning_rate) {
  std::vector<JointStep> all;
  for (const FusedGroup& group : groups) {
    const JointStep none{.weight_decay = group.weight_decay,
                         .rate = learning_rate * group.lr_scale};
    JointStep on_gpu = none;
    for (const ParameterStep& one :
         stepped({group}, parameters, gradients, learning_rate)) {
      JointStep alone = none;
      JointStep& with = one.weight.is_cpu() ? alone : on_gpu;
      with.indices.push_back(one.index);
      with.weights.push_back(one.weight);
      with.gradients.push_back(one.gradient);
      if (one.weight.is_cpu()) all.push_back(std::move(alone));
    }
    if (!on_gpu.indices.empty()) all.push_back(std::move(on_gpu));
  }
  return all;
}

Tensors with_decay(const JointStep& all) {
  return all.weight_decay == 0
             ? all.gradients
             : at::_foreach_add(all.gradients, all.weights, all.weight_decay);
}

Tensors zeros_like(const NamedTensors& parameters) {
  Tensors zeros;
  for (const auto& [name, parameter] : parameters)
    zeros.push_back(at::zeros_like(parameter.detach()));
  return zeros;
}

Tensors counts_for(const NamedTensors& parameters) {
  Tensors counts;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    counts.push_back(at::zeros({}, at::kFloat));
  return counts;
}

void add_state(const NamedTensors& parameters, std::string_view what,
               const Tensors& tensors, NamedTensors& state) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    state.emplace_back(fmt::format("{}.{}", parameters[i].first, what),
                       tensors[i]);
}

at::Tensor gradient_for(const at::Tensor& parameter,
                        const at::Tensor& gradient) {
  if (gradient.strides() == parameter.strides() &&
      gradient.scalar_type() == parameter.scalar_type())
    return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

}  // namespace sluice
