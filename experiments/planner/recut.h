#pragma once

#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/base/config.h"
#include "lib/schedules/costs.h"

namespace sluice {

/// Makes tables "1", "2", ... below `path`, "boundary" or "optimizer", that all
/// say the same into one that holds for any number. Throws UserError when they
/// differ. A table that has no such form stays.
void merge_numbered(ConfigNode& config, const char* path);

/// The config of a run with other blocks: "4" (balanced) or "0-3,4-". Where
/// their number changes, all boundaries, and all optimizers, must have been
/// alike: UserError says which are not.
ConfigNode cut_anew(const ConfigNode& config, const std::string& blocks);

/// What the blocks of a cut cost by what those of another one did: forwards and
/// backwards are split by the layers' part of the cost model, updates by their
/// parameters. A head at a cut boundary is what backwards took more than the
/// last block's part of its forward; new boundaries have the mean of those.
std::vector<BlockCosts> recut_costs(const std::vector<BlockCosts>& costs,
                                    const Experiment& from,
                                    const Experiment& to);

/// What the blocks of a cut vary by from turn to turn: each as the block of the
/// other cut that had its first layer.
std::vector<Variation> recut_variation(const std::vector<Variation>& variation,
                                       const Experiment& from,
                                       const Experiment& to);

}  // namespace sluice
