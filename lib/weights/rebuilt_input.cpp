// PETRA (Rivaud, Fournier, Pumir, Belilovsky, Eickenberg, Oyallon, ICLR 2025,
// arXiv:2406.02052): a block of reversible layers keeps nothing of a batch. Its
// output comes back with the gradient, and its input is rebuilt from that, with
// the weights of today: the input of the forward but for rounding where no
// update came between, and otherwise that of another forward. A block with a
// layer that has no inverse keeps its input (current.cpp), as the published
// stages do that change the size of the map. The published code takes gradients
// while it inverts; we forward what was rebuilt once more.
#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/tensors/leaves.h"
#include "lib/weights/block_weights.h"

namespace sluice {
namespace {

class RebuiltInput final : public WeightView {
 public:
  RebuiltInput(Block& block, StatisticsAt statistics, bool gradient_to_below)
      : block_(block),
        statistics_(statistics),
        gradient_to_below_(gradient_to_below) {}

  Tensors forward(Flight& flight) override {
    const at::NoGradGuard no_grad;
    Tensors outputs = run(flight, StatisticsAt::replay);
    flight.graph_bytes = 0;  // of this pass there is none
    if (block_.is_reversible()) flight.inputs.clear();
    return outputs;
  }

  Graph graph_of(Flight& flight, std::int64_t) override {
    const Tensors returned = std::exchange(flight.returned, {});
    if (block_.is_reversible()) flight.inputs = rebuilt(returned, flight);
    return {run(flight, StatisticsAt::forward), values_of(block_.parameters())};
  }

  void restore(Flight&, const Tensors&) override {}

 private:
  /// Statistics stay as they are when the other pass alone moves them.
  Tensors run(Flight& flight, StatisticsAt other) {
    std::optional<BuffersKept> kept;
    if (statistics_ == other) kept.emplace(block_);
    return forward_with_graph(block_, flight);
  }

  Tensors rebuilt(const Tensors& outputs, const Flight& flight) {
    SLUICE_CHECK(!outputs.empty(),
                 "block {}: its output of batch {} has not come back",
                 block_.index(), flight.pass.batch);
    const BuffersKept kept(block_);
    const at::NoGradGuard no_grad;
    return leaves_of(block_.inverse(outputs, flight.pass), gradient_to_below_);
  }

  Block& block_;
  StatisticsAt statistics_;
  bool gradient_to_below_;
};

}  // namespace

std::unique_ptr<WeightView> make_rebuilt_input(const WeightViewSite& site) {
  return std::make_unique<RebuiltInput>(site.block, site.statistics,
                                        site.gradient_to_below);
}

}  // namespace sluice
