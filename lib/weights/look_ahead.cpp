// Nesterov's look-ahead: a batch is forwarded, and goes backward, at x + m v,
// where v is the velocity of the block's optimizer and m its momentum (Nesterov
// 1983; in replicas, EAMSGD: Zhang, Choromanska and LeCun 2015,
// arXiv:1412.6651, algorithm 2). The weights themselves are untouched.
#include <cstddef>
#include <memory>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/weights/own_weights.h"

namespace sluice {
namespace {

class LookAheadView final : public OwnWeights {
 public:
  explicit LookAheadView(const WeightViewSite& site)
      : OwnWeights(site.block),
        update_(site.update),
        momentum_(site.look_ahead) {}

 private:
  Tensors weights_for(const Flight& flight) const override {
    const at::NoGradGuard no_grad;
    Tensors weights = values_of(block().parameters());
    const Tensors changes = update_.direction(flight.rate);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = at::add(weights[i], changes.at(i), momentum_);
    return weights;
  }

  const UpdateChain& update_;
  const double momentum_;
};

}  // namespace

std::unique_ptr<WeightView> make_look_ahead(const WeightViewSite& site) {
  return std::make_unique<LookAheadView>(site);
}

}  // namespace sluice
