// AdaGrad (Duchi et al., JMLR 2011), as torch.optim.Adagrad; on a GPU by ATen's
// fused operation, which rounds otherwise.
#include <cstddef>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/updates/fused.h"

namespace sluice {
namespace {

struct AdagradOptions {
  double lr_decay = 0;
  double initial_sum = 0;
  double epsilon = 1e-10;

  void describe(Fields& fields) {
    fields.key("lr_decay", lr_decay,
               {.text = "the rate of step t is lr / (1 + (t - 1) * lr_decay)",
                .min = 0});
    fields.key(
        "initial_sum", initial_sum,
        {.text = "sum of squared gradients before the first step", .min = 0});
    fields.key("epsilon", epsilon,
               {.text = "added to the root of the sum", .min = 0});
  }
};

class Adagrad final : public Optimizer {
 public:
  Adagrad(const AdagradOptions& own, const OptimizerOptions& options,
          const NamedTensors& parameters)
      : own_(own),
        parameters_(parameters),
        groups_(fused_groups(options, parameters)),
        sum_(zeros_like(parameters)),
        is_on_gpu_(!parameters.empty() && !parameters[0].second.is_cpu()),
        step_(is_on_gpu_ ? counts_beside(parameters) : counts_for(parameters)) {
    for (at::Tensor& sum : sum_) sum.fill_(own_.initial_sum);
  }

  void step(const Tensors& gradients, double learning_rate) override {
    const at::NoGradGuard no_grad;
    if (is_on_gpu_) return step_on_gpu(gradients, learning_rate);
    for (const JointStep& each :
         stepped_together(groups_, parameters_, gradients, learning_rate))
      step(each);
  }

  NamedTensors state() const override {
    NamedTensors named;
    add_state(parameters_, "sum", sum_, named);
    add_state(parameters_, "step", step_, named);
    return named;
  }

 private:
  /// Counts on the device of the parameters, where the fused operation reads
  /// them.
  static Tensors counts_beside(const NamedTensors& parameters) {
    Tensors counts;
    for (const auto& [name, parameter] : parameters)
      counts.push_back(at::zeros(
          {}, at::TensorOptions(at::kFloat).device(parameter.device())));
    return counts;
  }

  void step_on_gpu(const Tensors& gradients, double learning_rate) {
    Tensors counted;
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined()) counted.push_back(step_[i]);
    if (!counted.empty()) at::_foreach_add_(counted, 1);
    step_fused(
        groups_, parameters_, {}, gradients, {sum_},
        [&](const FusedGroup& group, const StepOperands& all) {
          at::_fused_adagrad_(all.weights, all.gradients, all.states[0],
                              all.steps, learning_rate * group.lr_scale,
                              own_.lr_decay, group.weight_decay, own_.epsilon,
                              /*maximize=*/false);
        },
        step_);
  }

  void step(const JointStep& each) {
    const Tensors changes = with_decay(each);
    const Tensors sums = each.of(sum_);
    at::_foreach_addcmul_(sums, changes, changes);
    const Tensors roots = at::_foreach_sqrt(sums);
    at::_foreach_add_(roots, own_.epsilon);
    const std::vector<at::Scalar> rates = count(each);
    at::_foreach_addcdiv_(each.weights, changes, roots,
                          at::ArrayRef<at::Scalar>(rates));
  }

  /// Factors of the changes in this step.
  std::vector<at::Scalar> count(const JointStep& each) {
    std::vector<at::Scalar> rates;
    for (const std::size_t i : each.indices) {
      const auto before = step_[i].item<double>();
      step_[i].add_(1);
      rates.emplace_back(-each.rate / (1 + before * own_.lr_decay));
    }
    return rates;
  }

  AdagradOptions own_;
  NamedTensors parameters_;
  std::vector<FusedGroup> groups_;
  Tensors sum_;  // of squared gradients
  bool is_on_gpu_;
  Tensors step_;
};

}  // namespace

MakeOptimizer read_adagrad(Fields& fields, OptimizerOptions& /*options*/) {
  AdagradOptions own;
  own.describe(fields);
  return [own](const OptimizerOptions& all, const NamedTensors& parameters) {
    return std::make_unique<Adagrad>(own, all, parameters);
  };
}

}  // namespace sluice
