#include "lib/updates/sharded_optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/updates/grouped.h"

namespace sluice {
namespace {

NamedTensors pieces_of(const NamedTensors& parameters, const Share& share) {
  const at::NoGradGuard no_grad;
  NamedTensors pieces;
  for (const auto& [name, parameter] : parameters)
    pieces.emplace_back(
        name, part_of(parameter.variable_data(), share).variable_data());
  return pieces;
}

}  // namespace

ShardedOptimizer::ShardedOptimizer(
    const std::function<std::unique_ptr<Optimizer>(const NamedTensors&)>& make,
    const NamedTensors& parameters, const Share& share)
    : parameters_(parameters),
      share_(share),
      pieces_(pieces_of(parameters, share)),
      rule_(make(pieces_)) {}

void ShardedOptimizer::step(const Tensors& gradients, double learning_rate) {
  follow_parameters();
  rule_->step(own_of(gradients), learning_rate);
}

void ShardedOptimizer::step_from(const MovedWeights& moved,
                                 const Tensors& gradients,
                                 double learning_rate) {
  follow_parameters();
  rule_->step_from(
      {parts_of(moved.before, share_), parts_of(moved.now, share_)},
      own_of(gradients), learning_rate);
}

/// A parameter may lie in other storage than at the last step.
void ShardedOptimizer::follow_parameters() {
  const NamedTensors now = pieces_of(parameters_, share_);
  for (std::size_t i = 0; i < now.size(); ++i)
    at::Tensor(pieces_[i].second).set_data(now[i].second);
}

Tensors ShardedOptimizer::own_of(const Tensors& gradients) const {
  Tensors own(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& piece = pieces_.at(i).second;
    if (!gradients[i].defined() || piece.numel() == 0) continue;
    const bool is_part = gradients[i].sizes() == piece.sizes();
    own[i] = is_part
                 ? gradients[i]
                 : part_of(gradient_for(parameters_[i].second, gradients[i]),
                           share_);
  }
  return own;
}

}  // namespace sluice
