// RMSprop (Tieleman & Hinton, lecture 6.5, 2012; centered: Graves,
// arXiv:1308.0850), as torch.optim.RMSprop.
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

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
    for (const JointStep& each :
         stepped_together(groups_, parameters_, gradients, learning_rate))
      step(each);
  }

  NamedTensors state() const override {
    NamedTensors named;
    add_state(parameters_, "square", square_, named);
    add_state(parameters_, "mean", mean_, named);
    add_state(parameters_, "momentum", velocity_, named);
    return named;
  }

 private:
  void step(const JointStep& each) {
    const Tensors changes = with_decay(each);
    const Tensors roots = roots_of(each, changes);
    if (velocity_.empty()) {
      at::_foreach_addcdiv_(each.weights, changes, roots, -each.rate);
      return;
    }
    const Tensors velocities = each.of(velocity_);
    at::_foreach_mul_(velocities, own_.momentum);
    at::_foreach_addcdiv_(velocities, changes, roots);
    at::_foreach_sub_(each.weights, velocities, each.rate);
  }

  /// The divisors of the gradients.
  Tensors roots_of(const JointStep& each, const Tensors& changes) {
    const double fresh = 1 - own_.alpha;
    const Tensors squares = each.of(square_);
    at::_foreach_mul_(squares, own_.alpha);
    at::_foreach_addcmul_(squares, changes, changes, fresh);
    Tensors roots = squares;
    if (!mean_.empty()) {
      const Tensors means = each.of(mean_);
      at::_foreach_lerp_(means, changes, fresh);
      roots = at::_foreach_addcmul(squares, means, means, -1);
    }
    roots = at::_foreach_sqrt(roots);
    at::_foreach_add_(roots, own_.epsilon);
    return roots;
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
