// LAMB (You et al. 2020, arXiv:1904.00962, algorithm 2): AdamW's change of a
// parameter, weight decay with it, scaled to the length of the weights. phi is
// the identity, as in the authors' code; and as there a vector (a bias, a
// norm's gain) moves by the change itself, unless adapt_vectors says otherwise.
// So does a parameter whose weights or change are all 0.
#include <cmath>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/updates/grouped.h"
#include "lib/updates/trust_ratio.h"

namespace sluice {
namespace {

class Lamb final : public Optimizer {
 public:
  Lamb(bool adapt_vectors, const OptimizerOptions& options,
       const NamedTensors& parameters)
      : adapt_vectors_(adapt_vectors),
        options_(options),
        parameters_(parameters),
        groups_(fused_groups(options, parameters)),
        mean_(zeros_like(parameters)),
        variance_(zeros_like(parameters)),
        step_(counts_for(parameters)) {}

  void step(const Tensors& gradients, double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (const ParameterStep& each :
         stepped(groups_, parameters_, gradients, learning_rate)) {
      const at::Tensor change = change_of(each);
      each.weight.sub_(change * rate_of(each, change));
    }
  }

  NamedTensors state() const override {
    NamedTensors named;
    add_state(parameters_, "mean", mean_, named);
    add_state(parameters_, "variance", variance_, named);
    add_state(parameters_, "step", step_, named);
    return named;
  }

 private:
  /// AdamW's step at rate 1, to be subtracted from the weights.
  at::Tensor change_of(const ParameterStep& each) {
    at::Tensor& mean = mean_[each.index];
    at::Tensor& variance = variance_[each.index];
    const auto now = step_[each.index].add_(1).item<double>();
    mean.lerp_(each.gradient, 1 - options_.beta1);
    variance.mul_(options_.beta2)
        .addcmul_(each.gradient, each.gradient, 1 - options_.beta2);
    const at::Tensor root =
        (variance / (1 - std::pow(options_.beta2, now))).sqrt_();
    return (mean / (1 - std::pow(options_.beta1, now)))
        .div_(root.add_(options_.epsilon))
        .add_(each.weight, each.weight_decay);
  }

  /// The step's rate, of no dimensions, in float64.
  at::Tensor rate_of(const ParameterStep& each,
                     const at::Tensor& change) const {
    if (each.weight.dim() < 2 && !adapt_vectors_)
      return at::scalar_tensor(each.rate, at::kDouble);
    return trust_ratio(each.weight, norm_of(change)) * each.rate;
  }

  bool adapt_vectors_;
  OptimizerOptions options_;
  NamedTensors parameters_;
  std::vector<FusedGroup> groups_;
  Tensors mean_;
  Tensors variance_;
  Tensors step_;
};

}  // namespace

MakeOptimizer read_lamb(Fields& fields, OptimizerOptions& options) {
  bool adapt_vectors = false;
  options.epsilon = 1e-6;  // the paper's
  options.describe_moments(fields);
  fields.key("adapt_vectors", adapt_vectors,
             {.text = "scale the steps of biases and norms to their lengths "
                      "too, as those of matrices"});
  options.wants_whole = true;
  return [adapt_vectors](const OptimizerOptions& all,
                         const NamedTensors& parameters) {
    return std::make_unique<Lamb>(adapt_vectors, all, parameters);
  };
}

}  // namespace sluice
