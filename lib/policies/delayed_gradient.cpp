// DDG, decoupled parallel backprop with delayed gradients: Huo et al., ICML
// 2018, arXiv:1804.10574. The gradient from above comes one turn later, so that
// the blocks' backwards overlap; block k applies batch t - (K - k) at turn t.
#include "lib/policies/from_above.h"

namespace sluice {

MakePolicy configure_delayed_gradient(Fields& options, const PlugIns&) {
  Traits traits{.delay = 1};
  read_weights(options, {"stash", "recompute", "mixed"}, traits.weights);
  return from_above(traits);
}

}  // namespace sluice
