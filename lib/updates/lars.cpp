// LARS (You, Gitman, Ginsburg 2017, arXiv:1708.03888, algorithm 1): each
// parameter has a rate of its own, trust * |w| / (|g| + weight_decay * |w|),
// times lr. The velocity has the rate in it, so that a rate that falls doesn't
// shrink the steps before. As in the authors' later code a vector (a bias, a
// norm's gain) has the rate lr alone, unless adapt_vectors says otherwise; so
// has a parameter whose weights are all 0.
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/updates/grouped.h"
#include "lib/updates/trust_ratio.h"

namespace sluice {
namespace {

struct LarsOptions {
  double momentum = 0.9;
  double trust = 0.001;
  bool adapt_vectors = false;

  void describe(Fields& fields) {
    fields.key("momentum", momentum,
               {.text = "part of the velocity that is kept at a step",
                .min = 0,
                .max = 0.999999});
    fields.key("trust", trust,
               {.text = "length of a step, in parts of the weights' own norm, "
                        "at lr = 1 and without momentum",
                .min = 0});
    fields.key("adapt_vectors", adapt_vectors,
               {.text = "scale the steps of biases and norms by their lengths "
                        "too, as those of matrices"});
  }
};

class Lars final : public Optimizer {
 public:
  Lars(const LarsOptions& own, const OptimizerOptions& options,
       const NamedTensors& parameters)
      : own_(own),
        parameters_(parameters),
        groups_(fused_groups(options, parameters)),
        velocity_(zeros_like(parameters)) {}

  void step(const Tensors& gradients, double learning_rate) override {
    const at::NoGradGuard no_grad;
    for (const ParameterStep& each :
         stepped(groups_, parameters_, gradients, learning_rate)) {
      at::Tensor& velocity = velocity_[each.index];
      velocity.mul_(own_.momentum).add_(with_decay(each) * rate_of(each));
      each.weight.sub_(velocity);
    }
  }

  NamedTensors state() const override {
    NamedTensors named;
    add_state(parameters_, "velocity", velocity_, named);
    return named;
  }

 private:
  /// The parameter's own rate, of no dimensions, in float64.
  at::Tensor rate_of(const ParameterStep& each) const {
    if (each.weight.dim() < 2 && !own_.adapt_vectors)
      return at::scalar_tensor(each.rate, at::kDouble);
    const at::Tensor length =
        norm_of(each.gradient) + norm_of(each.weight) * each.weight_decay;
    return trust_ratio(each.weight, length / own_.trust) * each.rate;
  }

  LarsOptions own_;
  NamedTensors parameters_;
  std::vector<FusedGroup> groups_;
  Tensors velocity_;
};

}  // namespace

MakeOptimizer read_lars(Fields& fields, OptimizerOptions& options) {
  LarsOptions own;
  own.describe(fields);
  options.wants_whole = true;
  return [own](const OptimizerOptions& all, const NamedTensors& parameters) {
    return std::make_unique<Lars>(own, all, parameters);
  };
}

}  // namespace sluice
