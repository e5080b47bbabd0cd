// FDG, fully decoupled training with gradient shrinking: Zhuang et al., TNNLS
// 2021, arXiv:1906.09108. Activations and gradients both travel for a turn, so
// block k applies batch t - 2 (K - k) at turn t; each boundary multiplies the
// gradient by beta. With accumulation it is ADL (Zhuang et al., ICML 2021,
// arXiv:2012.03747); with weights = "current" our reading of DSP (Xu et al.,
// CVPR 2020, arXiv:1909.02625), with weights = "rebuilt" PETRA
// (lib/weights/rebuilt_input.cpp).
#include "lib/boundaries/policies/from_above.h"

namespace sluice {

MakeBoundary configure_fully_decoupled(Fields& options, const PlugIns&) {
  Traits traits{.delay = 2, .order = Order::backward_first};
  double beta = 1;
  options.key("beta", beta,
              {.text = "factor by which this boundary multiplies the gradient",
               .min = 0,
               .max = 1});
  options.key("order", traits.order,
              {{"A", Order::forward_first}, {"B", Order::backward_first}},
              {.text = "order of a turn: A is forward, backward, update; B is "
                       "backward, update, forward"});
  read_weights(options, views_of_delays(/*with_replay=*/true), traits.weights);
  if (traits.weights.replays())
    read_statistics(options, traits.weights.statistics);
  return from_above(traits, beta);
}

MethodPage describe_fully_decoupled() {
  return {
      .source =
          "FDG: Zhuang, Wang, Liu, Lin, \"Fully Decoupled Neural Network "
          "Learning Using Delayed Gradients\", TNNLS 2021, "
          "arXiv:1906.09108; with accumulation ADL: ICML 2021, "
          "arXiv:2012.03747; with weights = \"current\" our reading of DSP: "
          "Xu et al., CVPR 2020, arXiv:1909.02625",
      .kept =
          "block k keeps max(1, 2(K-k)) batches in order B (default), "
          "2(K-k)+1 in order A: their graphs and weights (\"stash\", and "
          "\"predict\": those that the velocity predicts; \"vertical_sync\": "
          "those of block 1's forward), graphs alone (\"mixed\", and "
          "\"extrapolate\": with the velocity of the weights), inputs and "
          "weights (\"recompute\"), inputs alone (\"current\"), or nothing "
          "(\"rebuilt\", where all layers can be inverted; else inputs)",
      .batch_norm =
          "statistics move in the forward, once per batch; with "
          "weights = \"current\" or \"rebuilt\" the key `statistics` says "
          "which pass",
      .randomness =
          "keyed by the batch: what is forwarded again draws the masks "
          "of the first forward",
      .staleness =
          "d_batch = 2(K-k); d_upd = 2(K-k)-1 in order B, 2(K-k) in "
          "order A; accumulation over M batches divides d_upd by M"};
}

}  // namespace sluice
