#include "lib/schedules/plan/visits.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lib/schedules/plan/plan.h"

namespace sluice {
namespace {

/// A visit, and the part that it is the last to wait for.
struct Candidate {
  BackwardVisit visit;
  std::size_t last = 0;
};

/// The parts that leave the same way, applied or not; those that are neither
/// applied nor leave are left out.
std::vector<BackwardVisit> visits_of(const BlockPlan& block) {
  std::vector<Candidate> found;
  std::size_t way = 0;
  for (std::size_t i = 0; i < block.gradients.parts.size(); ++i) {
    const GradientPart& part = block.gradients.parts[i];
    const Arrival arrival{.way = part.own ? 0 : way++};
    if (!part.applied && part.leaving == GradientPart::kStays) continue;
    auto same = std::find_if(found.begin(), found.end(),
                             [&](const Candidate& candidate) {
                               return candidate.visit.leaving == part.leaving;
                             });
    if (same == found.end())
      same = found.insert(found.end(), {{.leaving = part.leaving}});
    same->last = i;
    if (part.own)
      same->visit.own = true;
    else
      same->visit.arrivals.push_back(arrival);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Candidate& left, const Candidate& right) {
                     return left.last < right.last;
                   });
  std::vector<BackwardVisit> visits;
  visits.reserve(found.size());
  for (Candidate& candidate : found)
    visits.push_back(std::move(candidate.visit));
  return visits;
}

/// In which messages the block above sends what arrives. False: a visit would
/// leave out a message, take two of them, or take one before another that was
/// sent earlier.
bool set_rounds(const std::vector<BackwardVisit>& above,
                std::vector<BackwardVisit>& visits) {
  std::map<std::size_t, std::int64_t> round_of;
  for (std::size_t round = 0; round < above.size(); ++round)
    if (above[round].leaving != GradientPart::kStays)
      round_of[static_cast<std::size_t>(above[round].leaving)] =
          static_cast<std::int64_t>(round);
  std::size_t taken = 0;
  std::int64_t last = -1;
  for (BackwardVisit& visit : visits) {
    if (visit.arrivals.size() > 1) return false;
    for (Arrival& arrival : visit.arrivals) {
      const auto sent = round_of.find(arrival.way);
      if (sent == round_of.end() || sent->second <= last) return false;
      arrival.round = last = sent->second;
      visit.lag =
          std::max(visit.lag, above[static_cast<std::size_t>(last)].lag + 1);
      ++taken;
    }
  }
  return taken == round_of.size();
}

bool may_have_visits(const BlockPlan& block) {
  const bool has_target =
      std::any_of(block.gradients.parts.begin(), block.gradients.parts.end(),
                  [](const GradientPart& part) { return part.target; });
  return block.delay == 0 && !block.lower.learns && !block.answers() &&
         !has_target;
}

}  // namespace

void visit_by_parts(RunPlan& plan) {
  if (plan.model_norm ||
      !std::all_of(plan.blocks.begin(), plan.blocks.end(), may_have_visits))
    return;
  std::vector<std::vector<BackwardVisit>> all;
  for (const BlockPlan& block : plan.blocks) all.push_back(visits_of(block));
  if (std::all_of(all.begin(), all.end(),
                  [](const auto& visits) { return visits.size() <= 1; }))
    return;
  for (std::size_t k = all.size() - 1; k-- > 0;)
    if (!set_rounds(all[k + 1], all[k])) return;
  for (std::size_t k = 0; k < all.size(); ++k)
    plan.blocks[k].visits = std::move(all[k]);
}

}  // namespace sluice
