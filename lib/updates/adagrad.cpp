// AdaGrad (Duchi et al., JMLR 2011), as torch.optim.Adagrad.
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lib/updates/grouped.h"

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
        step_(counts_for(parameters)) {
    for (at::Tensor& sum : sum_) sum.fill_(own_.initial_sum);
  }

  void step(const Tensors& gradients, double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (const Stepped& each :
         stepped(groups_, parameters_, gradients, learning_rate)) {
      const at::Tensor change = with_decay(each);
      at::Tensor& sum = sum_[each.index].addcmul_(change, change);
      const auto before = step_[each.index].item<double>();
      step_[each.index].add_(1);
      each.weight.addcdiv_(change, sum.sqrt().add_(own_.epsilon),
                           -each.rate / (1 + before * own_.lr_decay));
    }
  }

  NamedTensors state() const override {
    NamedTensors named;
    add_state(parameters_, "sum", sum_, named);
    add_state(parameters_, "step", step_, named);
    return named;
  }

 private:
  AdagradOptions own_;
  NamedTensors parameters_;
  std::vector<FusedGroup> groups_;
  Tensors sum_;  // of squared gradients
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
