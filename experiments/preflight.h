#pragma once

#include <optional>

#include "experiments/experiment.h"
#include "experiments/ranks/rank.h"

namespace sluice {

/// Whether worker processes can meet: where the temporary files of a run go,
/// the secret of ranks on several hosts, and where rank 0 listens. Throws
/// UserError; called before a run's folder is made, or an older one removed, so
/// that what the user has to mend leaves nothing behind.
void check_meeting(const Experiment& experiment,
                   const std::optional<Rank>& rank);

}  // namespace sluice
