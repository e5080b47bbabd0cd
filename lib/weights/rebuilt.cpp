// Recomputation (Chen et al. 2016, arXiv:1604.06174), as GPipe has it: only the
// input of a batch is kept, and its backward forwards it again. No update comes
// between, so the bits are those of the graph that wasn't kept.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/weights/block_weights.h"

namespace sluice {
namespace {

class RebuiltView final : public WeightView {
 public:
  explicit RebuiltView(Block& block) : block_(block) {}

  Tensors forward(Flight& flight) override {
    const at::NoGradGuard no_grad;
    return block_.forward(flight.inputs, flight.pass);
  }

  Graph graph_of(Flight& flight, std::int64_t version) override {
    SLUICE_CHECK(flight.version == version,
                 "block {} would rebuild the graph of batch {}, forwarded with "
                 "weight version {}, with version {}",
                 block_.index(), flight.pass.batch, flight.version, version);
    const BufferGuard kept(block_);
    return {forward_with_graph(block_, flight), values_of(block_.parameters())};
  }

  void restore(Flight&, const Tensors&) override {}

 private:
  Block& block_;
};

}  // namespace

std::unique_ptr<WeightView> make_rebuilt(const WeightViewSite& site) {
  return std::make_unique<RebuiltView>(site.block);
}

}  // namespace sluice
