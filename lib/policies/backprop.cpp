// Back-propagation across the boundary: the gradient that arrives from above
// is the signal.
#include "lib/policies/from_above.h"

namespace sluice {

MakePolicy configure_backprop(Fields&, const PlugIns&) {
  return from_above({});
}

MethodPage describe_backprop() {
  return {
      .source =
          "back-propagation; nobody's boundary method, and the reference "
          "of all others",
      .kept = "the graph of the batch, until its gradient has come from above",
      .batch_norm = "statistics move in the forward, once per batch",
      .randomness =
          "the backward goes through the graph of the forward: one "
          "mask per batch",
      .staleness =
          "none: d_batch = 0, d_upd = 0. Below a boundary that delays, "
          "that one's"};
}

}  // namespace sluice
