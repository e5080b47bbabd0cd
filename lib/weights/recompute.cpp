// As stash.cpp, with the same bits, but the graph is built at the backward,
// from the batch's input and weights: less memory for a second forward.
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/weights/block_weights.h"
#include "lib/weights/weight_versions.h"

namespace sluice {
namespace {

class RecomputeView final : public WeightView {
 public:
  explicit RecomputeView(Block& block) : block_(block), versions_(block) {}

  Tensors forward(Flight& flight) override {
    flight.block = versions_.today();
    const at::NoGradGuard no_grad;
    return block_.forward(flight.inputs, flight.pass);
  }

  Graph graph_of(Flight& flight, std::int64_t) override {
    const BufferGuard kept(block_);
    return {forward_with_graph(*flight.block, flight),
            values_of(flight.block->parameters())};
  }

  Tensors next_weights() override { return versions_.next(); }

  std::int64_t kept_bytes() const override { return versions_.held_bytes(); }

  Tensors weights_of(const Flight& flight) const override {
    return copied_weights(*flight.block);
  }

  void restore(Flight& flight, const Tensors& weights) override {
    flight.block = versions_.copy_of(weights);
  }

 private:
  Block& block_;
  WeightVersions versions_;
};

}  // namespace

std::unique_ptr<WeightView> make_recompute(const WeightViewSite& site) {
  return std::make_unique<RecomputeView>(site.block);
}

}  // namespace sluice
