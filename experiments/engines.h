#pragma once

#include <string>

#include "experiments/experiment.h"
#include "experiments/run_folder.h"
#include "lib/coordinator.h"

namespace sluice {

/// Runs the experiment's blocks on its engine until the coordinator grants no
/// more. `program` is the file that worker processes are started from.
void run_engine(const Experiment& experiment, const RunFolder& folder,
                const std::string& program, Coordinator& coordinator);

}  // namespace sluice
