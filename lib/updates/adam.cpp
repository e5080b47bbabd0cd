// Adam (Kingma & Ba, arXiv:1412.6980) and AdamW (Loshchilov & Hutter,
// arXiv:1711.05101) by ATen's fused operations.
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/updates/fused.h"

namespace sluice {
namespace {

enum class Decay : std::uint8_t { in_gradient, decoupled };

class Adam final : public Optimizer {
 public:
  Adam(const OptimizerOptions& options, const NamedTensors& parameters,
       Decay decay)
      : options_(options),
        parameters_(parameters),
        decay_(decay),
        groups_(fused_groups(options, parameters)) {
    for (const auto& [name, parameter] : parameters_) {
      mean_.push_back(at::zeros_like(parameter.detach()));
      variance_.push_back(at::zeros_like(parameter.detach()));
      step_.push_back(at::zeros(
          {}, at::TensorOptions(at::kFloat).device(parameter.device())));
    }
  }

  void step(const Tensors& gradients, double learning_rate) override {
    step_from({}, gradients, learning_rate);
  }

  void step_from(const MovedWeights& moved, const Tensors& gradients,
                 double learning_rate) override {
    const at::NoGradGuard no_grad;
    count(gradients);
    step_fused(groups_, parameters_, moved, gradients, {mean_, variance_},
               fused(learning_rate), step_);
  }

  Tensors direction(double learning_rate) const override {
    Tensors changes(parameters_.size());
    for (const FusedGroup& group : groups_)
      for (const std::size_t i : group.members)
        changes[i] =
            direction_of(i, learning_rate * group.lr_scale, group.weight_decay);
    return changes;
  }

  NamedTensors state() const override {
    NamedTensors named;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::string& name = parameters_[i].first;
      named.emplace_back(name + ".mean", mean_[i]);
      named.emplace_back(name + ".variance", variance_[i]);
      named.emplace_back(name + ".step", step_[i]);
    }
    return named;
  }

 private:
  /// Counts a step of each parameter that has a gradient, on a GPU in one
  /// launch.
  void count(const Tensors& gradients) {
    Tensors counted;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined()) counted.push_back(step_[i]);
    if (!counted.empty()) at::_foreach_add_(counted, 1);
  }

  /// By the bias-corrected mean over the root of the variance; a parameter that
  /// was never stepped doesn't move. The step is not read: the host would wait.
  at::Tensor direction_of(std::size_t i, double rate, double decay) const {
    const at::Tensor steps = step_[i].to(at::kDouble);
    const at::Tensor counted = steps.clamp_min(1);
    const auto correction = [&](double beta) {
      return 1 - at::pow(at::scalar_tensor(beta, counted.options()), counted);
    };
    const at::Tensor root = (variance_[i] / correction(options_.beta2)).sqrt_();
    at::Tensor change = mean_[i] / correction(options_.beta1) /
                        root.add_(options_.epsilon) * -rate;
    if (decay_ == Decay::decoupled && decay > 0)
      change.sub_(parameters_[i].second.detach() * steps.clamp_max(1),
                  rate * decay);
    return change;
  }

  FusedStep fused(double learning_rate) const {
    return [this, learning_rate](const FusedGroup& group,
                                 const StepOperands& all) {
      const auto step = decay_ == Decay::decoupled
                            ? static_cast<FusedFunction*>(&at::_fused_adamw_)
                            : static_cast<FusedFunction*>(&at::_fused_adam_);
      step(all.weights, all.gradients, all.states[0], all.states[1],
           /*max_exp_avg_sqs=*/{}, all.steps, learning_rate * group.lr_scale,
           options_.beta1, options_.beta2, group.weight_decay, options_.epsilon,
           /*amsgrad=*/false, /*maximize=*/false,
           /*grad_scale=*/{}, /*found_inf=*/{});
    };
  }

  using FusedFunction = void(at::TensorList, at::TensorList, at::TensorList,
                             at::TensorList, at::TensorList, at::TensorList,
                             double, double, double, double, double, bool, bool,
                             const std::optional<at::Tensor>&,
                             const std::optional<at::Tensor>&);

  OptimizerOptions options_;
  NamedTensors parameters_;
  Decay decay_;
  std::vector<FusedGroup> groups_;
  Tensors mean_;
  Tensors variance_;
  Tensors step_;
};

MakeOptimizer read_as(Decay decay, Fields& fields, OptimizerOptions& options) {
  options.describe_moments(fields);
  return [decay](const OptimizerOptions& all, const NamedTensors& parameters) {
    return std::make_unique<Adam>(all, parameters, decay);
  };
}

}  // namespace

MakeOptimizer read_adam(Fields& fields, OptimizerOptions& options) {
  return read_as(Decay::in_gradient, fields, options);
}

MakeOptimizer read_adamw(Fields& fields, OptimizerOptions& options) {
  return read_as(Decay::decoupled, fields, options);
}

}  // namespace sluice
