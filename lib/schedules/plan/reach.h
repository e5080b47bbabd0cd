#pragma once

#include <vector>

#include "lib/schedules/plan/plan.h"

namespace sluice {

/// The paths of gradients from losses down through a network. Loss k is that of
/// the head above block k; loss K is the run's own.
struct LossPaths {
  std::vector<std::vector<GradientPart>> parts;  ///< GradientFlow's; index k-1
  std::vector<int> leaving;                      ///< GradientFlow's; index k-1
  std::vector<bool> target_from_above = {};      ///< by block; add_targets()'s
};

/// Finds which gradients cross which boundary. The gradient of a loss crosses a
/// boundary when its head is within the boundary's reach and some block below
/// applies it. Losses that are applied by the same blocks below share one
/// gradient; the others have one each. Throws UserError for a reach that goes
/// beyond block K.
LossPaths loss_paths(const std::vector<Traits>& boundaries);

}  // namespace sluice
