// FR, features replay: Huo, Gu, Huang, NeurIPS 2018, arXiv:1807.04511. As DDG,
// but only the input of a batch is kept: when its gradient comes, the input is
// forwarded again through the weights of today.
#include "lib/policies/from_above.h"

namespace sluice {

MakePolicy configure_features_replay(Fields& options, const PlugIns&) {
  Traits traits{.delay = 1, .weights = WeightsAtBackward::current};
  read_statistics(options, traits.statistics);
  return from_above(traits);
}

}  // namespace sluice
