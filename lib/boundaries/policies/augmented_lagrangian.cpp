// Layer-parallel training by an augmented Lagrangian: Sun et al. 2020,
// arXiv:2009.01462. As penalty.cpp, with a multiplier lambda_k beside each z_k,
// which grows by beta (z_k - h_k) after each step of z_k: then z_k comes to h_k
// at a finite beta, and lambda_k to minus the gradient at h_k. With memory =
// "echo" the first pass over an echo leaves them there: z_k moves once more
// after lambda_k.
#include "lib/boundaries/policies/auxiliary_variable.h"

namespace sluice {

MakeBoundary configure_augmented_lagrangian(Fields& options, const PlugIns&) {
  return auxiliary_variable(options, {.dual = DualOf::multiplier});
}

MethodPage describe_augmented_lagrangian() {
  return {
      .source =
          "Sun et al. 2020, arXiv:2009.01462, the augmented Lagrangian method",
      .kept =
          "the graph of the batch, until its variables have moved; with memory "
          "= \"sample\" the variable and the multiplier of every training "
          "sample too, with \"echo\" those of batches that come again",
      .batch_norm = "statistics move in the first forward of a batch, once",
      .randomness = "one mask for all visits of a batch",
      .staleness =
          "none in order top_down and at_once. In order weights_first a block "
          "learns from the z and the multipliers that its samples had at their "
          "last visit, an epoch ago, and waits for no block above; with memory "
          "= \"echo\" those of the last pass over the echo",
      .example = "order = 'weights_first', memory = 'sample'"};
}

}  // namespace sluice
