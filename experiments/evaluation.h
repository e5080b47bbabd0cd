#pragma once

#include <string>

#include "experiments/experiment.h"
#include "lib/evaluation.h"

namespace sluice {

/// Evaluates the weights of a checkpoint or safetensors file on a split, in
/// this thread, as the experiment's blocks would: through the codecs of its
/// boundaries, if it has any; else the cut doesn't matter. Throws UserError
/// when they don't fit the experiment's model.
Evaluation evaluate(const Experiment& experiment, const std::string& weights,
                    const Split& split);

/// What `sluice eval` evaluates, and the config of the run that it belongs to.
struct Evaluated {
  std::string weights;
  std::string config = {};  ///< empty: unknown
};
/// path: a run's folder (its best checkpoint, or else its last), a checkpoint
/// in it, or a safetensors file. Throws UserError for anything else.
Evaluated find_evaluated(const std::string& path);

}  // namespace sluice
