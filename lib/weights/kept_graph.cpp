// The graph of the forward itself, on the block's own weights. Without delay no
// update comes in between. With delay this is `mixed`: old activations meet the
// weights of today, as in the code that was published with DDG (Huo et al.,
// ICML 2018, arXiv:1804.10574) and FDG.
#include <utility>

#include "lib/base/error.h"
#include "lib/weights/block_weights.h"

namespace sluice {
namespace {

class KeptGraph final : public WeightView {
 public:
  KeptGraph(Block& block, bool mixed, bool saved)
      : block_(block), mixed_(mixed), saved_(saved) {}

  Tensors forward(Flight& flight) override {
    if (saved_) flight.weights = copied_weights(block_);
    flight.outputs = forward_with_graph(block_, flight);
    return flight.outputs;
  }

  Graph graph_of(Flight& flight, std::int64_t version) override {
    // LibTorch doesn't notice that weights changed in place under a graph.
    SLUICE_CHECK(mixed_ || flight.version == version,
                 "block {} would run the graph of batch {}, made with weight "
                 "version {}, against version {}",
                 block_.index(), flight.pass.batch, flight.version, version);
    return {std::move(flight.outputs), values_of(block_.parameters())};
  }

  Tensors weights_of(const Flight& flight) const override {
    return flight.weights;
  }

  void restore(Flight& flight, const Tensors& weights) override {
    const BufferGuard kept(block_);
    const Tensors now = copied_weights(block_);
    overwrite_weights(weights, block_);
    forward(flight);
    overwrite_weights(now, block_);
  }

 private:
  Block& block_;
  bool mixed_;
  bool saved_;
};

}  // namespace

std::unique_ptr<WeightView> make_kept_graph(const WeightViewSite& site) {
  return std::make_unique<KeptGraph>(site.block, false, false);
}

std::unique_ptr<WeightView> make_mixed(const WeightViewSite& site) {
  return std::make_unique<KeptGraph>(site.block, true, site.saved);
}

}  // namespace sluice
