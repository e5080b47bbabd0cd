#pragma once

#include <vector>

#include "lib/schedules/plan/reach.h"

namespace sluice {

/// The way of the gradient that synthesizers learn from. It is the gradient
/// that the blocks apply unless a boundary says otherwise
/// (LowerTraits::lam_target): T_k = (1 - lam_target) M_k + lam_target J_{k+1}'
/// T_{k+1}. From there down to the last synthesizer that it reaches it is a
/// part of its own, which moves no weights. Throws UserError when a boundary
/// has a reach besides.
void add_targets(const std::vector<Traits>& boundaries, LossPaths& paths);

}  // namespace sluice
