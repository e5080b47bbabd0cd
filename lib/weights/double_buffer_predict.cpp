// The double buffer of PipeDream-2BW with linear weight prediction (predict.cpp
// has the sources): window j is trained at w_{j-1} + d_{j-1}, where d is what
// the optimizer would do in its next step by its state after j - 1 updates, at
// the rate of window j - 1: an estimate of w_j, which an exact pipeline would
// have used. As with the buffer alone, what a batch sees depends on its window
// only. The version with which the run or a phase begins is not predicted: the
// first window, which sees it too, is not late.
#include <map>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/weights/double_buffer.h"

namespace sluice {
namespace {

class DoubleBufferPredict final : public DoubleBuffer {
 public:
  DoubleBufferPredict(Block& block, const UpdateChain& update)
      : DoubleBuffer(block), block_(block), update_(update) {}

 private:
  std::int64_t version_for(const Flight& flight) override {
    const std::int64_t version = DoubleBuffer::version_for(flight);
    rates_[version] = flight.rate;
    rates_.erase(rates_.begin(), rates_.lower_bound(version - 1));
    return version;
  }

  /// Called when all batches of the update that follows this version have been
  /// forwarded, at the version before.
  Tensors weights_to_keep(std::int64_t version) const override {
    if (version == first()) return {};
    const auto rate = rates_.find(version - 1);
    SLUICE_CHECK(rate != rates_.end(),
                 "block {}: no batch was forwarded before update {}",
                 block_.index(), version);
    const at::NoGradGuard no_grad;
    Tensors weights = values_of(block_.parameters());
    const Tensors changes = update_.direction(rate->second);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = weights[i] + changes.at(i);
    return weights;
  }

  const Block& block_;
  const UpdateChain& update_;
  std::map<std::int64_t, double> rates_;  ///< by the version that a window sees
};

}  // namespace

std::unique_ptr<WeightView> make_double_buffer_predict(
    const WeightViewSite& site) {
  return std::make_unique<DoubleBufferPredict>(site.block, site.update);
}

}  // namespace sluice
