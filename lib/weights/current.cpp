// Features replay (Huo, Gu, Huang, NeurIPS 2018, arXiv:1807.04511): only the
// input is kept; the backward forwards it again, through the weights of today.
#include <optional>

#include <ATen/ATen.h>

#include "lib/weights/block_weights.h"

namespace sluice {
namespace {

class Current final : public WeightView {
 public:
  Current(Block& block, StatisticsAt statistics)
      : block_(block), statistics_(statistics) {}

  Tensors forward(Flight& flight) override {
    const at::NoGradGuard no_grad;
    Tensors outputs = run(flight, StatisticsAt::replay);
    flight.graph_bytes = 0;  // of this pass there is none
    return outputs;
  }

  Graph graph_of(Flight& flight, std::int64_t) override {
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

  Block& block_;
  StatisticsAt statistics_;
};

}  // namespace

std::unique_ptr<WeightView> make_current(const WeightViewSite& site) {
  return std::make_unique<Current>(site.block, site.statistics);
}

}  // namespace sluice
