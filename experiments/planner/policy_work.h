#pragma once

#include "experiments/config/experiment.h"

namespace sluice::planner {

/// Operations for a sample of what works at a boundary beside the blocks:
/// heads, synthesizers, input models, with their backwards. Matrix products and
/// convolutions only; in a batch of the experiment's size, which the comparison
/// of samples with each other depends on.
struct PolicyWork {
  double signal = 0;       ///< when block k goes backward
  double learn = 0;        ///< what a synthesizer learns from it
  double learn_input = 0;  ///< of the input model of block k+1, in all
};

/// The work of the policy of the boundary above the block in the first phase,
/// found by letting it work on a few made-up samples.
PolicyWork policy_work(const Experiment& experiment, int block);

}  // namespace sluice::planner
