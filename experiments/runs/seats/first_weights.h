#pragma once

#include <string>

#include "experiments/config/experiment.h"
#include "lib/workers/seat.h"

namespace sluice {

/// Files that the seats of a run save to and continue from; each may be empty.
struct RunFiles {
  std::string checkpoints = {};  ///< the folder that they are saved in
  std::string resume = {};       ///< the checkpoint that the run continues from
};

/// Gives a seat the weights, and the state, that it shall start with: those of
/// files.resume, or else of the experiment's initial_weights; without either it
/// keeps its own. Throws UserError when they don't fit.
void set_first_weights(const Experiment& experiment, const RunFiles& files,
                       Seat& seat);

}  // namespace sluice
