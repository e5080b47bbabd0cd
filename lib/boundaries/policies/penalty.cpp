// Layer-parallel training by a penalty: Sun et al. 2020, arXiv:2009.01462.
// Block k+1 trains on a variable z_k in place of h_k; what block k learns from
// is the penalty beta/2 |z_k - h_k|^2 (auxiliary_variable.h). As published: z
// of each sample, weights first, or with augmented samples z of batches that
// come again (memory = "echo"), left by a pass from the top. The text of the
// paper was not at hand for the hybrid: how many batches lie between its passes
// is data.echo's to say. beta rises by a timetable only. With memory = "batch"
// nothing is kept, and the variables of a batch begin at its features.
#include "lib/boundaries/policies/auxiliary_variable.h"

namespace sluice {

MakeBoundary configure_penalty(Fields& options, const PlugIns&) {
  return auxiliary_variable(options, {});
}

MethodPage describe_penalty() {
  return {
      .source = "Sun et al. 2020, arXiv:2009.01462, the penalty method",
      .kept =
          "the graph of the batch, until its variables have moved; with memory "
          "= \"sample\" the variable of every training sample too, with "
          "\"echo\" those of batches that come again",
      .batch_norm = "statistics move in the first forward of a batch, once",
      .randomness = "one mask for all visits of a batch",
      .staleness =
          "none in order top_down and at_once: with one step from the top and "
          "beta step_size = 1 the gradients are those of back-propagation. In "
          "order weights_first a block learns from the z that its samples had "
          "at their last visit, an epoch ago, and waits for no block above; "
          "with memory = \"echo\" from the z of the last pass over the echo",
      .example = "order = 'weights_first', memory = 'sample'"};
}

}  // namespace sluice
