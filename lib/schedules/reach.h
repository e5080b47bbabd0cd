#pragma once

#include <vector>

#include "lib/schedules/plan.h"

namespace sluice {

/// The way of the losses' gradients through a network: losses of the heads
/// above the blocks, that of block K being the run's own.
struct LossPaths {
  std::vector<std::vector<GradientPart>> parts;  ///< BlockPlan's; index k-1
  std::vector<int> leaving;                      ///< BlockPlan's; index k-1
  std::vector<bool> target_from_above = {};      ///< by block; add_targets()'s
};

/// A loss passes a boundary when its head is within the boundary's reach and
/// some block below is moved by it. Losses that are applied by the same blocks
/// from there on go down as one gradient, all others apart. Throws UserError
/// for a reach beyond the blocks.
LossPaths loss_paths(const std::vector<Traits>& boundaries);

}  // namespace sluice
