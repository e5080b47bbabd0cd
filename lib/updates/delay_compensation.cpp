// Delay compensation (Zheng et al., ICML 2017, arXiv:1609.08326): a gradient
// taken at the weights u of its forward is carried to the present weights w by
// its own square as the diagonal of the Hessian: g + strength g g (w - u).
// Adaptive: strength / sqrt(mean of g g + 1e-7) instead. Deviation: u is the
// forward's of this very batch, where a known implementation has the last
// update's.
#include <memory>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/updates/corrections.h"
#include "lib/updates/grouped.h"
#include "lib/updates/transform.h"

namespace sluice {
namespace {

struct DelayOptions {
  double strength = 0.04;
  bool adaptive = false;
  double decay = 0.95;

  void describe(Fields& fields) {
    fields.key("strength", strength,
               {.text = "lambda, in g + lambda * g * g * (weights - weights "
                        "of the forward)",
                .min = 0});
    fields.key("adaptive", adaptive,
               {.text = "divide it by the root of the mean of g * g; a "
                        "strength of 2 is usual then"});
    fields.key(
        "decay", decay,
        {.text = "decay of the mean of g * g", .min = 0, .max = 0.999999});
  }
};

class DelayCompensation final : public Transform {
 public:
  DelayCompensation(const DelayOptions& own, const NamedTensors& parameters)
      : own_(own), parameters_(parameters) {
    if (own_.adaptive) square_ = zeros_like(parameters);
  }

  void apply(Tensors& gradients, UpdateInfo& info) override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < square_.size(); ++i)
      if (gradients[i].defined())
        square_[i]
            .mul_(own_.decay)
            .addcmul_(gradients[i], gradients[i], 1 - own_.decay);
    if (info.in_updates.sum == 0) return;
    if (info.forward_weights.empty())
      throw UserError(
          "correction 'delay_compensation' needs gradients that were taken at "
          "the weights of the forward, and this method takes them at others: "
          "use one with weights = 'stash', or another correction");
    for (std::size_t i = 0; i < info.forward_weights.size(); ++i)
      if (gradients[i].defined())
        gradients[i] = compensated(i, gradients[i], info.forward_weights[i]);
  }

  NamedTensors state() const override {
    NamedTensors named;
    add_state(parameters_, "correction", square_, named);
    return named;
  }

 private:
  at::Tensor compensated(std::size_t i, const at::Tensor& gradient,
                         const at::Tensor& forward_weight) const {
    at::Tensor change =
        (parameters_[i].second - forward_weight).mul_(gradient).mul_(gradient);
    if (own_.adaptive) change.div_(square_[i].add(1e-7).sqrt_());
    return gradient.add(change, own_.strength);
  }

  DelayOptions own_;
  NamedTensors parameters_;
  Tensors square_;  // mean of squared gradients; empty unless adaptive
};

}  // namespace

MakeCorrection read_delay_compensation(Fields& fields,
                                       OptimizerOptions& options) {
  DelayOptions own;
  own.describe(fields);
  options.wants_forward_weights = true;
  return [own](const NamedTensors& parameters) {
    return std::make_unique<DelayCompensation>(own, parameters);
  };
}

}  // namespace sluice
