// DDG, decoupled parallel backprop with delayed gradients: Huo et al., ICML
// 2018, arXiv:1804.10574. The gradient from above comes one turn later, so that
// the blocks' backwards overlap; block k applies batch t - (K - k) at turn t.
#include "lib/boundaries/policies/from_above.h"

namespace sluice {

MakeBoundary configure_delayed_gradient(Fields& options, const PlugIns&) {
  Traits traits{.delay = 1};
  read_weights(options, views_of_delays(/*with_replay=*/false), traits.weights);
  return from_above(traits);
}

MethodPage describe_delayed_gradient() {
  return {
      .source =
          "DDG: Huo, Gu, Yang, Huang, \"Decoupled Parallel "
          "Backpropagation with Convergence Guarantee\", ICML 2018, "
          "arXiv:1804.10574",
      .kept =
          "block k keeps K-k+1 batches. weights = \"stash\" (exact): their "
          "graphs and the weights of their forwards; \"recompute\": inputs "
          "and weights, and the graph is built anew; \"predict\": as stash, "
          "of weights that the optimizer's velocity predicts; "
          "\"vertical_sync\": graphs, and the weights since those with which "
          "block 1 forwarded them; \"mixed\" (what the published code "
          "does): graphs alone, run against the present weights; "
          "\"extrapolate\": as mixed, against weights that are moved back "
          "along their velocity",
      .batch_norm =
          "statistics move in the forward, once per batch; a recompute "
          "leaves them alone",
      .randomness =
          "keyed by the batch: a recompute draws the masks of the "
          "forward again",
      .staleness =
          "block k applies at turn t batch t - (K-k): d_batch = K-k; "
          "d_upd = min(K-k, t - (K-k)), which is K-k once the pipe is "
          "full; K-1 in every block with weights = \"vertical_sync\""};
}

}  // namespace sluice
