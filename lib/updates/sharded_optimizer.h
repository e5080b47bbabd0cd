#pragma once

#include <functional>
#include <memory>

#include "lib/tensors/parts.h"
#include "lib/updates/optimizer.h"

namespace sluice {

/// An optimizer of a share of each parameter: the others' shares are left as
/// they are, for replicas that step them. Rajbhandari et al. 2020, "ZeRO"
/// (arXiv:1910.02054), stage 1. The rule treats every element alone, so that
/// all shares together have the bits of a step of the whole.
class ShardedOptimizer final : public Optimizer {
 public:
  /// make: makes the rule for such parameters.
  ShardedOptimizer(const std::function<
                       std::unique_ptr<Optimizer>(const NamedTensors&)>& make,
                   const NamedTensors& parameters, const Share& share);

  /// gradients: of the whole parameters, or parts_of() them.
  void step(const Tensors& gradients, double learning_rate) override;
  void step_from(const MovedWeights& moved, const Tensors& gradients,
                 double learning_rate) override;
  NamedTensors state() const override { return rule_->state(); }

 private:
  void follow_parameters();
  Tensors own_of(const Tensors& gradients) const;

  const NamedTensors parameters_;
  const Share share_;
  const NamedTensors pieces_;  // of the parameters, where these lie now
  const std::unique_ptr<Optimizer> rule_;
};

}  // namespace sluice
