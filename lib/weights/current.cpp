// Features replay (Huo, Gu, Huang, NeurIPS 2018, arXiv:1807.04511): only the
// input is kept; the backward forwards it again, through the weights of today.
#include "lib/weights/double_forward.h"

namespace sluice {
namespace {

class CurrentView final : public WeightView {
 public:
  CurrentView(Block& block, StatisticsPass statistics)
      : passes_(block, statistics) {}

  Tensors forward(Flight& flight) override { return passes_.forward(flight); }

  Graph graph_of(Flight& flight, std::int64_t) override {
    return passes_.graph_of(flight);
  }

  void restore(Flight&, const Tensors&) override {}

 private:
  DoubleForward passes_;
};

}  // namespace

std::unique_ptr<WeightView> make_current(const WeightViewSite& site) {
  return std::make_unique<CurrentView>(site.block, site.statistics);
}

}  // namespace sluice
