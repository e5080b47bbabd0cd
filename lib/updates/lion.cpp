// Lion (Chen et al., arXiv:2302.06675, algorithm 2): a step is the sign of a
// mixture of momentum and gradient, so every weight moves by the rate. Weight
// decay is decoupled.
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/updates/grouped.h"

namespace sluice {
namespace {

struct LionOptions {
  double beta1 = 0.9;
  double beta2 = 0.99;

  void describe(Fields& fields) {
    fields.key("beta1", beta1,
               {.text = "part of the momentum in a step", .min = 0, .max = 1});
    fields.key("beta2", beta2,
               {.text = "decay of the momentum", .min = 0, .max = 0.999999});
  }
};

class Lion final : public Optimizer {
 public:
  Lion(const LionOptions& own, const OptimizerOptions& options,
       const NamedTensors& parameters)
      : own_(own),
        parameters_(parameters),
        groups_(fused_groups(options, parameters)),
        momentum_(zeros_like(parameters)) {}

  void step(const Tensors& gradients, double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (const JointStep& each :
         stepped_together(groups_, parameters_, gradients, learning_rate)) {
      const Tensors momenta = each.of(momentum_);
      const Tensors signs =
          at::_foreach_lerp(momenta, each.gradients, 1 - own_.beta1);
      at::_foreach_sign_(signs);
      at::_foreach_mul_(each.weights, 1 - each.rate * each.weight_decay);
      at::_foreach_sub_(each.weights, signs, each.rate);
      at::_foreach_lerp_(momenta, each.gradients, 1 - own_.beta2);
    }
  }

  NamedTensors state() const override {
    NamedTensors named;
    add_state(parameters_, "momentum", momentum_, named);
    return named;
  }

 private:
  LionOptions own_;
  NamedTensors parameters_;
  std::vector<FusedGroup> groups_;
  Tensors momentum_;
};

}  // namespace

MakeOptimizer read_lion(Fields& fields, OptimizerOptions& /*options*/) {
  LionOptions own;
  own.describe(fields);
  return [own](const OptimizerOptions& all, const NamedTensors& parameters) {
    return std::make_unique<Lion>(own, all, parameters);
  };
}

}  // namespace sluice
