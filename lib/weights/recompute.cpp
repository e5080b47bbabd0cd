// As stash.cpp, with the same bits, but the graph is built at the backward,
// from the batch's input and weights: less memory for a second forward.
#include <utility>

#include <ATen/ATen.h>

#include "lib/weights/block_weights.h"

namespace sluice {
namespace {

class Recompute final : public WeightView {
 public:
  explicit Recompute(Block& block) : block_(block), twin_(block.twin()) {}

  Tensors forward(Flight& flight) override {
    flight.weights = copied_weights(block_);
    const at::NoGradGuard no_grad;
    return block_.forward(flight.inputs, flight.pass);
  }

  Graph graph_of(Flight& flight, std::int64_t) override {
    overwrite_weights(flight.weights, twin_);
    // The statistics that this forward moves are the twin's.
    twin_.copy_buffers(block_);
    return {forward_with_graph(twin_, flight), values_of(twin_.parameters())};
  }

  Tensors weights_of(const Flight& flight) const override {
    return flight.weights;
  }

  void restore(Flight& flight, const Tensors& weights) override {
    flight.weights = weights;
  }

 private:
  Block& block_;
  Block twin_;
};

}  // namespace

std::unique_ptr<WeightView> make_recompute(const WeightViewSite& site) {
  return std::make_unique<Recompute>(site.block);
}

}  // namespace sluice
