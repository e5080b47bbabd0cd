// RMSprop (Tieleman & Hinton, lecture 6.5, 2012; centered: Graves,
// arXiv:1308.0850), as torch.optim.RMSprop.
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lib/updates/grouped.h"

namespace sluice {
namespace {

struct RmspropOptions {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;
  bool centered = false;

  void describe(Fields& fields) {
    fields.key("alpha", alpha,
               {.text = "decay of the mean of squared gradients",
                .min = 0,
                .max = 0.999999});
    fields.key("epsilon", epsilon,
               {.text = "added to the root of the mean", .min = 0});
    fields.key("momentum", momentum,
               {.text = "part of the velocity that is kept at a step",
                .min = 0,
                .max = 1});
    fields.key("centered", centered,
               {.text = "divide by the deviation from the mean gradient"});
  }
};

class Rmsprop final : public Optimizer {
 public:
  Rmsprop(const RmspropOptions& own, const OptimizerOptions& options,
          const NamedTensors& parameters)
      : own_(own),
        parameters_(parameters),
        groups_(fused_groups(options, parameters)),
        square_(zeros_like(parameters)) {
    if (own_.centered) mean_ = zeros_like(parameters);
    if (own_.momentum > 0) velocity_ = zeros_like(parameters);
  }

  void step(const Tensors& gradients, double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (const Stepped& each :
         stepped(groups_, parameters_, gradients, learning_rate)) {
      const at::Tensor change = with_decay(each);
      const at::Tensor root = root_of(each.index, change);
      if (velocity_.empty()) {
        each.weight.addcdiv_(change, root, -each.rate);
      } else {
        at::Tensor& velocity = velocity_[each.index];
        velocity.mul_(own_.momentum).addcdiv_(change, root);
        each.weight.sub_(velocity, each.rate);
      }
    }
  }

  NamedTensors state() const override {
    NamedTensors named;
    add_state(parameters_, "square", square_, named);
    add_state(parameters_, "mean", mean_, named);
    add_state(parameters_, "momentum", velocity_, named);
    return named;
  }

 private:
  /// What the gradient is divided by.
  at::Tensor root_of(std::size_t i, const at::Tensor& change) {
    const double fresh = 1 - own_.alpha;
    square_[i].mul_(own_.alpha).addcmul_(change, change, fresh);
    if (mean_.empty()) return square_[i].sqrt().add_(own_.epsilon);
    mean_[i].lerp_(change, fresh);
    return square_[i]
        .addcmul(mean_[i], mean_[i], -1)
        .sqrt_()
        .add_(own_.epsilon);
  }

  RmspropOptions own_;
  NamedTensors parameters_;
  std::vector<FusedGroup> groups_;
  Tensors square_;    // mean of squared gradients
  Tensors mean_;      // of gradients; empty unless centered
  Tensors velocity_;  // empty without momentum
};

}  // namespace

MakeOptimizer read_rmsprop(Fields& fields, OptimizerOptions& /*options*/) {
  RmspropOptions own;
  own.describe(fields);
  return [own](const OptimizerOptions& all, const NamedTensors& parameters) {
    return std::make_unique<Rmsprop>(own, all, parameters);
  };
}

}  // namespace sluice
