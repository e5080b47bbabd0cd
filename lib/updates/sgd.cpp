// SGD with momentum, Nesterov and weight decay, as torch::optim::SGD, by
// ATen's fused operation.
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/updates/fused.h"

namespace sluice {
namespace {

class Sgd final : public VelocityOptimizer {
 public:
  Sgd(const OptimizerOptions& options, const NamedTensors& parameters)
      : options_(options),
        parameters_(parameters),
        groups_(fused_groups(options, parameters)) {
    if (options_.momentum == 0) return;
    // A velocity of 0 makes the first step's velocity the gradient itself, as
    // the reference's first step does.
    for (const auto& [name, parameter] : parameters_)
      velocity_.push_back(at::zeros_like(parameter.detach()));
  }

  void step(const Tensors& gradients, double learning_rate) override {
    step_from({}, gradients, learning_rate);
  }

  void step_from(const MovedWeights& moved, const Tensors& gradients,
                 double learning_rate) override {
    const at::NoGradGuard no_grad;
    step_fused(groups_, parameters_, moved, gradients, states(),
               fused(learning_rate));
  }

  Tensors direction(double learning_rate) const override {
    if (velocity_.empty() && !parameters_.empty())
      return Optimizer::direction(learning_rate);
    Tensors changes(parameters_.size());
    for (const FusedGroup& group : groups_)
      for (const std::size_t i : group.members)
        changes[i] = velocity_[i] * (-learning_rate * group.lr_scale);
    return changes;
  }

  void step_along(const Tensors& gradients, double learning_rate,
                  const StepMix& mix) override {
    const at::NoGradGuard no_grad;
    for (const ParameterStep& each :
         stepped(groups_, parameters_, gradients, learning_rate)) {
      const at::Tensor change = with_decay(each);
      at::Tensor& velocity = velocity_[each.index];
      velocity.mul_(mix.momentum.value_or(options_.momentum)).add_(change);
      each.weight.sub_((mix.gradient * change).add_(velocity, mix.velocity),
                       each.rate);
    }
  }

  NamedTensors state() const override {
    NamedTensors named;
    for (std::size_t i = 0; i < velocity_.size(); ++i)
      named.emplace_back(parameters_[i].first + ".momentum", velocity_[i]);
    return named;
  }

 private:
  std::vector<Tensors> states() const {
    return velocity_.empty() ? std::vector<Tensors>()
                             : std::vector<Tensors>{velocity_};
  }

  FusedStep fused(double learning_rate) const {
    return [this, learning_rate](const FusedGroup& group,
                                 const StepOperands& all) {
      at::_fused_sgd_(all.weights, all.gradients,
                      all.states.empty() ? at::TensorList()
                                         : at::TensorList(all.states.front()),
                      group.weight_decay, options_.momentum,
                      learning_rate * group.lr_scale,
                      /*dampening=*/0, options_.nesterov, /*maximize=*/false,
                      /*is_first_step=*/false);
    };
  }

  OptimizerOptions options_;
  NamedTensors parameters_;
  std::vector<FusedGroup> groups_;
  Tensors velocity_;
};

}  // namespace

MakeOptimizer read_sgd(Fields& fields, OptimizerOptions& options) {
  fields.key("momentum", options.momentum,
             {.text = "part of the velocity that is kept at a step; below 0 "
                      "each step takes back a part of the last, where late "
                      "gradients bring a momentum of their own",
              .min = -1,
              .max = 1});
  fields.key("nesterov", options.nesterov,
             {.text = "look ahead along the velocity"});
  fields.key("look_ahead", options.look_ahead,
             {.text = "gradients are those at the block's weights moved on by "
                      "momentum times the velocity, and a step is that of the "
                      "momentum alone: Nesterov's own form, of which "
                      "`nesterov` has the weights further on for its weights "
                      "(EAMSGD)"});
  if (options.nesterov && options.look_ahead)
    fields.reject("look_ahead",
                  "is another form of nesterov: leave one of them out");
  if (options.nesterov && options.momentum <= 0)
    fields.reject("nesterov", "needs a momentum above 0");
  return [](const OptimizerOptions& all, const NamedTensors& parameters) {
    return std::make_unique<Sgd>(all, parameters);
  };
}

}  // namespace sluice
