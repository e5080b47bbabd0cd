// NAdam (Dozat, ICLR workshop 2016) with the momentum's schedule of
// torch.optim.NAdam: mu_t = beta1 (1 - 0.96^(t psi) / 2), where the step goes
// along the momentum that the next one will have. A stale gradient is then a
// small part of a step that is mostly momentum: Ajanthan et al.
// (arXiv:2505.01099) pipeline without stalls this way, with beta1 = 0.99. With
// PyTorch's psi mu is 0.5 beta1 at first and rises over 20,000 steps.
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/updates/grouped.h"

namespace sluice {
namespace {

struct NadamOptions {
  bool decoupled = false;
  double momentum_decay = 4e-3;

  void describe(Fields& fields) {
    fields.key("momentum_decay", momentum_decay,
               {.text = "psi: the momentum of step t is beta1 * (1 - 0.5 * "
                        "0.96^(t * psi)); the larger, the sooner it is beta1",
                .min = 0});
  }
  double momentum_at(double step, double beta1) const {
    return beta1 * (1 - 0.5 * std::pow(0.96, step * momentum_decay));
  }
};

class Nadam final : public Optimizer {
 public:
  Nadam(const NadamOptions& own, const OptimizerOptions& options,
        const NamedTensors& parameters)
      : own_(own),
        options_(options),
        parameters_(parameters),
        groups_(fused_groups(options, parameters)),
        mean_(zeros_like(parameters)),
        variance_(zeros_like(parameters)),
        step_(counts_for(parameters)) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      product_.push_back(at::ones({}, at::kDouble));
  }

  void step(const Tensors& gradients, double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (const JointStep& each :
         stepped_together(groups_, parameters_, gradients, learning_rate))
      step(each);
  }

  NamedTensors state() const override {
    NamedTensors named;
    add_state(parameters_, "mean", mean_, named);
    add_state(parameters_, "variance", variance_, named);
    add_state(parameters_, "step", step_, named);
    add_state(parameters_, "momenta", product_, named);
    return named;
  }

 private:
  /// Factors of each parameter of a step, in the order of the parameters.
  struct Factors {
    std::vector<at::Scalar> corrections = {};  ///< of the variance
    std::vector<at::Scalar> along_gradient = {};
    std::vector<at::Scalar> along_mean = {};
  };

  Factors count(const JointStep& each) {
    Factors factors;
    for (const std::size_t i : each.indices) {
      const auto now = step_[i].add_(1).item<double>();
      const double momentum = own_.momentum_at(now, options_.beta1);
      const double next = own_.momentum_at(now + 1, options_.beta1);
      const auto product = product_[i].mul_(momentum).item<double>();
      factors.corrections.emplace_back(1 - std::pow(options_.beta2, now));
      factors.along_gradient.emplace_back(-each.rate * (1 - momentum) /
                                          (1 - product));
      factors.along_mean.emplace_back(-each.rate * next / (1 - product * next));
    }
    return factors;
  }

  void step(const JointStep& each) {
    using Scalars = at::ArrayRef<at::Scalar>;
    const Factors factors = count(each);
    if (own_.decoupled)
      at::_foreach_mul_(each.weights, 1 - each.rate * each.weight_decay);
    const Tensors changes = own_.decoupled ? each.gradients : with_decay(each);
    const Tensors means = each.of(mean_);
    const Tensors variances = each.of(variance_);
    at::_foreach_lerp_(means, changes, 1 - options_.beta1);
    at::_foreach_mul_(variances, options_.beta2);
    at::_foreach_addcmul_(variances, changes, changes, 1 - options_.beta2);
    const Tensors deviations =
        at::_foreach_div(variances, Scalars(factors.corrections));
    at::_foreach_sqrt_(deviations);
    at::_foreach_add_(deviations, options_.epsilon);
    at::_foreach_addcdiv_(each.weights, changes, deviations,
                          Scalars(factors.along_gradient));
    at::_foreach_addcdiv_(each.weights, means, deviations,
                          Scalars(factors.along_mean));
  }

  NadamOptions own_;
  OptimizerOptions options_;
  NamedTensors parameters_;
  std::vector<FusedGroup> groups_;
  Tensors mean_;
  Tensors variance_;
  Tensors step_;
  Tensors product_;  // of the momenta of all steps so far
};

MakeOptimizer read_nadam_as(bool decoupled, Fields& fields,
                            OptimizerOptions& options) {
  NadamOptions own{.decoupled = decoupled};
  options.describe_moments(fields);
  own.describe(fields);
  return [own](const OptimizerOptions& all, const NamedTensors& parameters) {
    return std::make_unique<Nadam>(own, all, parameters);
  };
}

}  // namespace

MakeOptimizer read_nadam(Fields& fields, OptimizerOptions& options) {
  return read_nadam_as(false, fields, options);
}

MakeOptimizer read_nadamw(Fields& fields, OptimizerOptions& options) {
  return read_nadam_as(true, fields, options);
}

}  // namespace sluice
