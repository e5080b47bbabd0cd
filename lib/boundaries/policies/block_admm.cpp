// Stochastic Block-ADMM: Khorram et al. 2021, arXiv:2105.00339. In each
// batch: a few gradient steps on the variables z_k, from the top; a step of all
// weights, each within its block; u_k grows by z_k - h_k. The dual is scaled (u
// = lambda / beta). With memory = "batch", the published online form, z begins
// at h and u at 0 in each batch; with "sample" both are kept. Steps of z are
// plain gradient steps, and the weights' are the block's optimizer's.
#include "lib/boundaries/policies/auxiliary_variable.h"

namespace sluice {

MakeBoundary configure_block_admm(Fields& options, const PlugIns&) {
  return auxiliary_variable(options, {.steps = 3, .dual = DualOf::scaled});
}

MethodPage describe_block_admm() {
  return {
      .source = "stochastic Block-ADMM: Khorram et al. 2021, arXiv:2105.00339",
      .kept =
          "the graph of the batch, until its variables have moved for the last "
          "time; with memory = \"sample\" the variable and the dual of every "
          "training sample too",
      .batch_norm = "statistics move in the first forward of a batch, once",
      .randomness = "one mask for all visits of a batch",
      .staleness =
          "none: the weights of a batch move by where its variables have come "
          "to"};
}

}  // namespace sluice
