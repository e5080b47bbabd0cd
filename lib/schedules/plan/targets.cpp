#include "lib/schedules/plan/targets.h"

#include <algorithm>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Whether the target at h_k depends on the one that arrives from above.
bool passes(const Traits& boundary) {
  return boundary.lower.lam_target ? *boundary.lower.lam_target != 0
                                   : !boundary.cut;
}

/// Whether a synthesizer learns from what arrives at the boundary, or at one
/// below that it passes on to. Index k-1.
std::vector<bool> wanted_at(const std::vector<Traits>& boundaries) {
  std::vector<bool> wanted;
  for (const Traits& boundary : boundaries) {
    const bool below = !wanted.empty() && wanted.back();
    wanted.push_back(boundary.learns_from_gradient() ||
                     (below && passes(boundary)));
  }
  return wanted;
}

void check_reach(const std::vector<Traits>& boundaries) {
  for (std::size_t i = 0; i < boundaries.size(); ++i)
    if (!boundaries[i].cut && boundaries[i].reach.blocks != kUnbounded)
      throw UserError(
          "boundary {}: a reach can't go with a lam_target of another "
          "boundary: leave out one of them",
          i + 1);
}

}  // namespace

void add_targets(const std::vector<Traits>& boundaries, LossPaths& paths) {
  paths.target_from_above.assign(boundaries.size() + 1, false);
  if (std::none_of(boundaries.begin(), boundaries.end(),
                   [](const Traits& each) { return each.lower.lam_target; }))
    return;
  check_reach(boundaries);
  const std::vector<bool> wanted = wanted_at(boundaries);
  // Blocks that have boundaries above (i) and below (i - 1); the last block's
  // target is what it applies.
  for (std::size_t i = boundaries.size() - 1; i >= 1; --i) {
    const Traits& above = boundaries[i];
    const bool apart =
        above.lower.lam_target || (paths.target_from_above[i] && passes(above));
    if (!apart || !wanted[i - 1]) continue;
    const bool both_leave = !boundaries[i - 1].cut;
    if (!both_leave)
      for (GradientPart& part : paths.parts[i])
        part.leaving = GradientPart::kStays;
    paths.parts[i].push_back({.own = !passes(above),
                              .applied = false,
                              .leaving = both_leave ? 1 : 0,
                              .target = true});
    paths.leaving[i] = both_leave ? 2 : 1;
    paths.target_from_above[i - 1] = both_leave;
  }
}

}  // namespace sluice
