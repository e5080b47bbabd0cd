#pragma once

#include <optional>

#include "experiments/config/experiment.h"
#include "experiments/runs/ranks/rank.h"

namespace sluice {

/// Whether the temporary files of worker processes have somewhere to go. Throws
/// UserError. Like check_meeting(), called before a run's folder is made, or an
/// older one removed, so that what the user has to mend leaves nothing behind.
void check_temporary_files(const Experiment& experiment);

/// Whether worker processes can meet: the secret of ranks on several hosts, and
/// where rank 0 listens. Throws UserError.
void check_meeting(const Experiment& experiment,
                   const std::optional<Rank>& rank);

}  // namespace sluice
