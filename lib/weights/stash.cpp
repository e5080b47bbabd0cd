// The graph of the forward, on the weights of then: an exact gradient of a
// batch at the weights with which it was forwarded (Huo et al., ICML 2018,
// arXiv:1804.10574, as in its equations; PipeDream's weight stashing).
#include "lib/weights/own_weights.h"

namespace sluice {
namespace {

class Stash final : public OwnWeights {
 public:
  using OwnWeights::OwnWeights;

 private:
  Tensors weights_for(const Flight& /*flight*/) const override { return {}; }
};

}  // namespace

std::unique_ptr<WeightView> make_stash(const WeightViewSite& site) {
  return std::make_unique<Stash>(site.block);
}

}  // namespace sluice
