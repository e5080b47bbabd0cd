// NAdam (Dozat, ICLR workshop 2016) with the momentum's schedule of
// torch.optim.NAdam: mu_t = beta1 (1 - 0.96^(t psi) / 2), where the step goes
// along the momentum that the next one will have. A stale gradient is then a
// small part of a step that is mostly momentum: Ajanthan et al.
// (arXiv:2505.01099) pipeline without stalls this way, with beta1 = 0.99. With
// PyTorch's psi mu is 0.5 beta1 at first and rises over 20,000 steps.
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

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
    for (const Stepped& each :
         stepped(groups_, parameters_, gradients, learning_rate))
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
  void step(const Stepped& each) {
    const std::size_t i = each.index;
    const auto now = step_[i].add_(1).item<double>();
    const double momentum = own_.momentum_at(now, options_.beta1);
    const double next = own_.momentum_at(now + 1, options_.beta1);
    const auto product = product_[i].mul_(momentum).item<double>();
    if (own_.decoupled) each.weight.mul_(1 - each.rate * each.weight_decay);
    const at::Tensor change = own_.decoupled ? each.gradient : with_decay(each);
    mean_[i].lerp_(change, 1 - options_.beta1);
    variance_[i]
        .mul_(options_.beta2)
        .addcmul_(change, change, 1 - options_.beta2);
    const at::Tensor deviation = variance_[i]
                                     .div(1 - std::pow(options_.beta2, now))
                                     .sqrt_()
                                     .add_(options_.epsilon);
    each.weight.addcdiv_(change, deviation,
                         -each.rate * (1 - momentum) / (1 - product));
    each.weight.addcdiv_(mean_[i], deviation,
                         -each.rate * next / (1 - product * next));
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
