// FR, features replay: Huo, Gu, Huang, NeurIPS 2018, arXiv:1807.04511. As DDG,
// but only the input of a batch is kept: when its gradient comes, the input is
// forwarded again through the weights of today.
#include "lib/boundaries/policies/from_above.h"

namespace sluice {

MakeBoundary configure_features_replay(Fields& options, const PlugIns&) {
  Traits traits{.delay = 1, .weights = weights_at_backward("current")};
  read_statistics(options, traits.weights.statistics);
  return from_above(traits);
}

MethodPage describe_features_replay() {
  return {
      .source =
          "FR: Huo, Gu, Huang, \"Training Neural Networks Using Features "
          "Replay\", NeurIPS 2018, arXiv:1807.04511",
      .kept =
          "block k keeps the inputs of K-k+1 batches, and one graph while it "
          "goes backward",
      .batch_norm =
          "a batch is forwarded twice; statistics = \"forward\" "
          "or \"replay\" moves them once, \"both\" (what the published code "
          "does) twice: a model with BatchNorm needs this key",
      .randomness =
          "keyed by the batch: the replay draws the masks of the first "
          "forward again (the published code does not)",
      .staleness =
          "block k applies at turn t batch t - (K-k): d_batch = K-k. "
          "The block's own weights are the present ones; the gradient "
          "from above was computed a turn earlier"};
}

}  // namespace sluice
