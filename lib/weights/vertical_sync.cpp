// PipeDream's vertical sync (Narayanan et al., SOSP 2019, section 3.3;
// arXiv:1806.03377): a batch goes forward and backward, in every block, with
// the version of the weights that the lowest block had when the batch entered
// it, which comes up in the header of each activation. With delays of one turn
// between K blocks w_{t+1} = w_t - rate * gradient(w_{t-K+1}), as in one block
// whose gradients are K - 1 updates old, and K versions are kept in each.
#include "lib/weights/kept_versions.h"

namespace sluice {
namespace {

class VerticalSync final : public KeptVersions {
 public:
  using KeptVersions::KeptVersions;

 private:
  /// Batches enter in turn: the next one's version is no earlier.
  std::int64_t version_for(const Flight& flight) override {
    forget_before(flight.entry_version);
    return flight.entry_version;
  }
};

}  // namespace

std::unique_ptr<WeightView> make_vertical_sync(const WeightViewSite& site) {
  return std::make_unique<VerticalSync>(site.block);
}

}  // namespace sluice
