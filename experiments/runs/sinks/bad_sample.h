#pragma once

#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/sinks/divergence.h"

namespace sluice {

/// The first sample that these turns trained on, or that evaluations see, whose
/// input or target is NaN or infinite: "sample 17 of train.npy". Empty: none is
/// known; the search ends after half a minute, and with anything that can't be
/// read.
std::string find_bad_sample(const Experiment& experiment,
                            const SuspectTurns& turns);

/// Bad sample of a split that is evaluated: "test", "validation" or "training".
std::string find_bad_sample(const Experiment& experiment, const Split& split,
                            const std::string& split_name);

}  // namespace sluice
