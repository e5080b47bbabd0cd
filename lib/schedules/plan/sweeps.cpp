#include "lib/schedules/plan/sweeps.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// A block's place in the network.
struct SweepPlace {
  bool is_bottom = false;
  bool is_top = false;
};

std::vector<BackwardVisit> top_down(std::int64_t steps,
                                    const SweepPlace& place) {
  std::vector<BackwardVisit> visits;
  for (std::int64_t j = 0; j < steps; ++j) {
    const bool is_last = j + 1 == steps;
    BackwardVisit visit{.own = place.is_top,
                        .applied = is_last,
                        .leaving = place.is_bottom ? GradientPart::kStays : 0,
                        .takes_input = j > 0 && !place.is_bottom,
                        .publishes = !is_last && !place.is_top};
    if (!place.is_top) visit.arrivals.push_back({.way = 0, .round = j});
    visits.push_back(std::move(visit));
  }
  return visits;
}

std::vector<BackwardVisit> at_once(std::int64_t steps,
                                   const SweepPlace& place) {
  std::vector<BackwardVisit> visits;
  for (std::int64_t i = 0; i <= 2 * steps; ++i) {
    const bool is_last = i == 2 * steps;
    if (i % 2 == 0) {
      visits.push_back(
          {.own = true,
           .applied = is_last,
           .leaving = is_last || place.is_bottom ? GradientPart::kStays : 0,
           .takes_input = i > 0 && !place.is_bottom});
      continue;
    }
    BackwardVisit move{
        .applied = false, .publishes = !place.is_top, .goes_back = false};
    if (!place.is_top) move.arrivals.push_back({.way = 0, .round = i - 1});
    visits.push_back(std::move(move));
  }
  return visits;
}

void check_parts(const Traits& boundary, const BlockPlan& block) {
  if (!boundary.lower.publishes || boundary.cut) return;
  const bool has_target =
      std::any_of(block.gradients.parts.begin(), block.gradients.parts.end(),
                  [](const GradientPart& part) { return part.target; });
  if (block.gradients.are_merged() && !has_target) return;
  throw UserError(
      "boundary {}: its variable moves by one gradient, and several come "
      "down: leave out the reach, or the lam_target, of other boundaries",
      block.block);
}

void check_alike(const std::vector<Traits>& boundaries, const Sweeps& sweeps,
                 const RunPlan& plan) {
  for (std::size_t k = 1; k <= boundaries.size(); ++k)
    if (boundaries[k - 1].lower.sweeps != sweeps)
      throw UserError(
          "boundary {}: variables that move several times move together: the "
          "same steps and order at all boundaries",
          k);
  if (plan.blocks.front().micro_batches.count > 1)
    throw UserError(
        "variables that move several times go with pipeline.micro_batches = 1 "
        "only: a batch is visited again before the next one comes");
  if (plan.model_norm)
    throw UserError(
        "clip.scope = 'model' can't go with variables that move several "
        "times: use clip.scope = 'block'");
}

}  // namespace

void add_sweeps(const std::vector<Traits>& boundaries, RunPlan& plan) {
  for (std::size_t k = 0; k < boundaries.size(); ++k)
    check_parts(boundaries[k], plan.blocks[k]);
  const auto found = std::find_if(boundaries.begin(), boundaries.end(),
                                  [](const Traits& boundary) {
                                    return boundary.lower.sweeps.are_several();
                                  });
  if (found == boundaries.end()) return;
  check_alike(boundaries, found->lower.sweeps, plan);
  const auto visits = found->lower.sweeps.at_once ? at_once : top_down;
  for (BlockPlan& block : plan.blocks) {
    block.visits = visits(
        found->lower.sweeps.steps,
        {.is_bottom = block.block == 1, .is_top = block.block == plan.depth()});
    block.sweeps = true;
  }
}

}  // namespace sluice
