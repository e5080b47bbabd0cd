#pragma once

#include <cstdint>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/seats/assembled_model.h"
#include "lib/blocks/evaluation.h"

namespace sluice {

/// Evaluates the weights of a checkpoint or safetensors file on a split, in
/// this thread, as the experiment's blocks would: through the codecs of its
/// boundaries, if it has any; else the cut doesn't matter. Throws UserError
/// when they don't fit the experiment's model.
Evaluation evaluate(const Experiment& experiment, const std::string& weights,
                    const Split& split);

/// The model with those weights, to be evaluated in this process. Throws
/// UserError likewise, and NonFiniteError where they aren't finite: `command`
/// is what the remedy gives another checkpoint to.
AssembledModel load_model(const Experiment& experiment,
                          const std::string& weights,
                          const std::string& command = "sluice eval");

/// Throws NonFiniteError where the loss isn't finite, naming the sample and the
/// file that explain it.
void check_is_finite(const Evaluation& result, const Experiment& experiment,
                     const Split& split, const std::string& split_name);

/// Results of the model for the first samples of a split, in one batch:
/// "inputs" as its first layer takes them, "labels" and "logits".
NamedTensors first_logits(const Experiment& experiment,
                          const std::string& weights, const Split& split,
                          std::int64_t samples);

/// What `sluice eval` evaluates, and the config of the run that it belongs to.
struct EvaluationTarget {
  std::string weights;
  std::string config = {};     ///< empty: unknown
  std::string read_from = {};  ///< weights; no link, which may change meanwhile
};
/// path: a run's folder (its best checkpoint, or else its last), a checkpoint
/// in it, a safetensors file, or a folder of another program's with such files.
/// Throws UserError for anything else.
EvaluationTarget find_evaluated(const std::string& path);

}  // namespace sluice
