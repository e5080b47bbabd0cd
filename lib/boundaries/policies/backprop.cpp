// Back-propagation across the boundary: the gradient that arrives from above
// is the signal. With a reach, that of near losses only: at a boundary some
// layers below the end of a module this is BackLink (Guo et al. 2022,
// arXiv:2205.07141).
#include "lib/boundaries/policies/from_above.h"

namespace sluice {

MakeBoundary configure_backprop(Fields& options, const PlugIns&) {
  Traits traits;
  std::int64_t reach = 0;
  options.key(
      "reach", reach,
      {.text = "gradients pass this boundary only from losses of the next "
               "`reach` blocks above it; 0: from all",
       .unit = "blocks",
       .min = 0,
       .max = 1000});
  if (reach > 0) traits.reach.blocks = reach;
  return from_above(traits);
}

MethodPage describe_backprop() {
  return {
      .source =
          "back-propagation: not a decoupled method, but the reference for all "
          "others. With `reach`: BackLink, Guo et al. 2022, arXiv:2205.07141",
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
