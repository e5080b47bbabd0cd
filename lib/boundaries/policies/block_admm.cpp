// Stochastic Block-ADMM: Khorram et al. 2021, arXiv:2105.00339. In each batch
// the variables z_k take a few steps of Adam, all blocks at once; then all
// weights take a step, each within its block, by their own optimizer. The dual
// is scaled (u = lambda / beta). With memory = "sample", the published batch
// form, z, u and Adam's moments are kept of each sample, and u grows by z - h
// after the weights. With memory = "batch", the online form, z begins at h and
// u at 0 in each batch; there u grows after each sweep of the variables, as
// what comes after the weights would be forgotten before it was used. So with
// one step there is no dual, and what is left is the penalty.
#include "lib/boundaries/policies/auxiliary_variable.h"

namespace sluice {

MakeBoundary configure_block_admm(Fields& options, const PlugIns&) {
  return auxiliary_variable(options, {.step_size = 0.01,
                                      .step = VariablesStep::adam,
                                      .steps = 3,
                                      .order = VariablesOrder::at_once,
                                      .dual = DualOf::scaled});
}

MethodPage describe_block_admm() {
  return {
      .source = "stochastic Block-ADMM: Khorram et al. 2021, arXiv:2105.00339",
      .kept =
          "the graph of the batch, until its variables have moved for the last "
          "time; with memory = \"sample\" the variable, the dual and Adam's "
          "two "
          "moments of every training sample too",
      .batch_norm = "statistics move in the first forward of a batch, once",
      .randomness = "one mask for all visits of a batch",
      .staleness =
          "none: the weights of a batch move by where its variables have come "
          "to"};
}

}  // namespace sluice
