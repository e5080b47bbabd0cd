// Linear weight prediction: a batch is forwarded, and goes backward, at
// w + s d, where d is what the optimizer would do with its present state and s
// the updates between the two (SpecTrain: Chen, Yang, Cheng 2018,
// arXiv:1809.02839; XPipe: arXiv:1911.04610; Kosson et al., MLSys 2021,
// arXiv:2003.11666, equation 14). The weights themselves are untouched.
#include <tuple>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/weights/own_weights.h"

namespace sluice {
namespace {

class PredictView final : public OwnWeights {
 public:
  PredictView(Block& block, const UpdateChain& update)
      : OwnWeights(block), update_(update) {}

 private:
  Tensors weights_for(const Flight& flight) const override {
    const at::NoGradGuard no_grad;
    if (flight.updates_ahead == 0) return {};
    Tensors weights = values_of(block().parameters());
    const Tensors changes = update_.direction(flight.rate);
    const auto steps = static_cast<double>(flight.updates_ahead);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = at::add(weights[i], changes.at(i), steps);
    return weights;
  }

  const UpdateChain& update_;
};

}  // namespace

/// Prediction was published with spike compensation; what lowers the rate by
/// the staleness would make up for the same delay twice.
void check_predict(const OptimizerOptions& optimizer) {
  if (!optimizer.correction.empty() &&
      optimizer.correction != "spike_compensation")
    throw UserError(
        "weights that are predicted and the correction '{}' both make up for "
        "the delay: leave one of them out",
        optimizer.correction);
  const NamedTensors one = {{"weight", at::zeros({1})}};
  std::ignore = make_optimizer(optimizer, one)->direction(0);
}

std::unique_ptr<WeightView> make_predict(const WeightViewSite& site) {
  return std::make_unique<PredictView>(site.block, site.update);
}

}  // namespace sluice
