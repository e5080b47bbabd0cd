// Momentum that asynchrony brings, taken off. N workers that bring gradients at
// random times make SGD behave, on average, as if it had a momentum of 1 - 1/N
// (Mitliagkas et al. 2016, arXiv:1605.09774, theorem 3 and its corollary); its
// staleness is N - 1. So of a momentum m that was found for gradients in time,
// v = max(m - (1 - 1 / (1 + tau)), -m) v + g, where tau is the mean staleness
// of all updates so far. The paper tunes the explicit momentum, and finds it
// below 0 for many workers; that this rule does it by the staleness is ours.
#include <algorithm>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lib/updates/corrections.h"
#include "lib/updates/transform.h"

namespace sluice {
namespace {

class ImplicitMomentum final : public Transform {
 public:
  ImplicitMomentum(double momentum, const NamedTensors& parameters)
      : momentum_(momentum), seen_(at::zeros({2}, at::kDouble)) {
    if (!parameters.empty()) name_ = parameters.front().first + ".staleness";
  }

  void apply(Tensors& /*gradients*/, UpdateInfo& info) override {
    const at::NoGradGuard no_grad;
    auto* seen = seen_.mutable_data_ptr<double>();
    seen[0] += info.in_updates.mean_over(info.batches);
    seen[1] += 1;
    if (seen[0] == 0) return;
    const double mean = seen[0] / seen[1];
    info.mix.momentum = std::max(momentum_ - (1 - 1 / (1 + mean)), -momentum_);
  }

  NamedTensors state() const override {
    if (name_.empty()) return {};
    return {{name_, seen_}};
  }

 private:
  double momentum_;
  at::Tensor seen_;   // [2]: the sum of the staleness of updates, their number
  std::string name_;  // in a checkpoint; empty: there are no parameters
};

}  // namespace

MakeCorrection read_implicit_momentum(Fields& fields,
                                      OptimizerOptions& options) {
  if (options.name != "sgd" || options.momentum <= 0 || options.nesterov)
    fields.reject("name",
                  "'implicit_momentum' lowers a momentum, which "
                  "optimizer.name = 'sgd' with a momentum above 0 has, without "
                  "nesterov");
  options.wants_whole = true;
  return [momentum = options.momentum](const NamedTensors& parameters) {
    return std::make_unique<ImplicitMomentum>(momentum, parameters);
  };
}

}  // namespace sluice
