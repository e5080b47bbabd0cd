#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/base/config.h"
#include "lib/schedules/simulation/costs.h"

namespace sluice::planner {

/// Whether block k + 1 of the plan trains on a loss of its own, below the top.
bool has_head(const RunPlan& plan, std::size_t k);

/// Merges the tables "1", "2", ... under `path` ("boundary" or "optimizer")
/// into one table that holds for every number. Throws UserError when they are
/// not equal. A table without numbered tables stays as it is.
void merge_numbered(ConfigNode& config, const char* path);

/// The config of a run, cut into other blocks: "4" (balanced) or "0-3,4-". When
/// the number of blocks changes, all boundaries must have equal settings, and
/// all optimizers too; else throws a UserError that names the difference.
ConfigNode cut_anew(const ConfigNode& config, const std::string& blocks);

/// Estimates the costs of the blocks of cut `to` from the costs of the blocks
/// of cut `from`: times of forwards and backwards are divided among the layers
/// by the cost model, times of updates by the number of parameters. The cost of
/// a head is the time of its block's backward beyond what the ratio of backward
/// to forward in the last block explains; new boundaries get the mean of these.
std::vector<BlockCosts> recut_costs(const std::vector<BlockCosts>& costs,
                                    const Experiment& from,
                                    const Experiment& to);

/// Variation from turn to turn of the blocks of cut `to`: each has that of the
/// block of cut `from` that held its first layer.
std::vector<Variation> recut_variation(const std::vector<Variation>& variation,
                                       const Experiment& from,
                                       const Experiment& to);

}  // namespace sluice::planner
