// PETRA (Rivaud, Fournier, Pumir, Belilovsky, Eickenberg, Oyallon, ICLR 2025,
// arXiv:2406.02052): a block of reversible layers keeps nothing of a batch. Its
// output comes back with the gradient, and its input is rebuilt from that, with
// the weights of today: the input of the forward but for rounding where no
// update came between, and otherwise that of another forward. A block with a
// layer that has no inverse keeps its input (current.cpp), as the published
// stages do that change the size of the map. The published code takes gradients
// while it inverts; we forward what was rebuilt once more.
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/tensors/leaves.h"
#include "lib/weights/double_forward.h"

namespace sluice {
namespace {

class RebuiltInput final : public WeightView {
 public:
  RebuiltInput(Block& block, StatisticsPass statistics, bool gradient_to_below)
      : block_(block),
        passes_(block, statistics),
        gradient_to_below_(gradient_to_below) {}

  Tensors forward(Flight& flight) override {
    Tensors outputs = passes_.forward(flight);
    if (block_.is_reversible()) flight.inputs.clear();
    return outputs;
  }

  Graph graph_of(Flight& flight, std::int64_t) override {
    const Tensors returned = std::exchange(flight.returned, {});
    if (block_.is_reversible()) flight.inputs = rebuilt(returned, flight);
    return passes_.graph_of(flight);
  }

  void restore(Flight&, const Tensors&) override {}

 private:
  Tensors rebuilt(const Tensors& outputs, const Flight& flight) {
    SLUICE_CHECK(!outputs.empty(),
                 "block {}: its output of batch {} has not come back",
                 block_.index(), flight.pass.batch);
    const BufferGuard kept(block_);
    const at::NoGradGuard no_grad;
    return leaves_of(block_.inverse(outputs, flight.pass), gradient_to_below_);
  }

  Block& block_;
  DoubleForward passes_;
  bool gradient_to_below_;
};

}  // namespace

std::unique_ptr<WeightView> make_rebuilt_input(const WeightViewSite& site) {
  return std::make_unique<RebuiltInput>(site.block, site.statistics,
                                        site.gradient_to_below);
}

}  // namespace sluice
