#include "lib/schedules/plan/reach.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

using Losses = std::set<int>;  // by the block above which their head stands

/// Which losses arrive where; all vectors have the block, from 1, as index.
class Paths {
 public:
  explicit Paths(const std::vector<Traits>& boundaries)
      : boundaries_(boundaries),
        count_(static_cast<int>(boundaries.size()) + 1),
        within_reach_(boundaries.size() + 2),
        applied_(boundaries.size() + 2),
        crossing_(boundaries.size() + 2) {
    check();
    for (int block = count_; block >= 1; --block) find_arriving(block);
    for (int block = 1; block <= count_; ++block) find_crossing(block);
  }

  LossPaths paths() const {
    LossPaths found;
    for (int block = 1; block <= count_; ++block) {
      found.parts.push_back(parts_of(block));
      found.leaving.push_back(
          wants_target(block - 1)
              ? 1
              : static_cast<int>(groups_at(block - 1).size()));
    }
    return found;
  }

 private:
  const Traits& boundary(int k) const { return by_block(boundaries_, k); }
  bool is_cut(int k) const { return k < 1 || boundary(k).cut; }
  bool is_own(int block) const {
    return block == count_ || boundary(block).own || boundary(block).cut;
  }
  /// A cut at which a synthesizer learns from what would have passed.
  bool wants_target(int k) const {
    return k >= 1 && boundary(k).cut && boundary(k).learns_from_gradient();
  }

  void check() const {
    for (int k = 1; k < count_; ++k) {
      const Traits& traits = boundary(k);
      if (traits.cut || traits.reach.blocks == kUnbounded ||
          traits.reach.blocks < count_)
        continue;
      throw UserError(
          "boundary {}: reach = {} goes beyond the network: of {} blocks, "
          "at most {} are above another",
          k, traits.reach.blocks, count_, count_ - 1);
    }
  }

  void find_arriving(int block) {
    Losses& within = within_reach_[static_cast<std::size_t>(block)];
    if (block < count_ && !is_cut(block)) {
      const auto next = static_cast<std::size_t>(block) + 1;
      Losses above = within_reach_[next];
      if (is_own(block + 1)) above.insert(block + 1);
      for (const int loss : above)
        if (loss - block <= boundary(block).reach.blocks) within.insert(loss);
    }
    Losses& applied = applied_[static_cast<std::size_t>(block)];
    applied = within;
    if (is_own(block)) applied.insert(block);
    if (applied.empty())
      throw UserError(
          "boundary {}: no loss is within its reach of {}, so block {} would "
          "never learn",
          block, boundary(block).reach.blocks, block);
    if (block < count_ && boundary(block).reach.rule == ReachRule::furthest)
      applied = {*applied.rbegin()};
  }

  /// Finds which losses within the reach of boundary k must cross it: block k
  /// applies them, or they cross boundary k-1 too.
  void find_crossing(int k) {
    const auto index = static_cast<std::size_t>(k);
    for (const int loss : within_reach_[index])
      if (applied_[index].contains(loss) || crossing_[index - 1].contains(loss))
        crossing_[index].insert(loss);
  }

  /// The way of a loss from boundary k on, by where it goes and is applied:
  /// equal ones go together.
  std::string way_of(int loss, int k) const {
    std::string way;
    for (; k >= 1; --k) {
      const auto index = static_cast<std::size_t>(k);
      way += crossing_[index].contains(loss) ? '|' : ' ';
      way += applied_[index].contains(loss) ? 'x' : ' ';
    }
    return way;
  }

  std::vector<Losses> groups_at(int k) const {
    std::vector<std::pair<std::string, Losses>> groups;
    if (k < 1) return {};
    for (const int loss : crossing_[static_cast<std::size_t>(k)]) {
      const std::string way = way_of(loss, k);
      const auto same =
          std::find_if(groups.begin(), groups.end(),
                       [&](const auto& group) { return group.first == way; });
      if (same == groups.end())
        groups.push_back({way, {loss}});
      else
        same->second.insert(loss);
    }
    std::vector<Losses> all;
    for (auto& [way, losses] : groups) all.push_back(std::move(losses));
    return all;
  }

  GradientPart part_of(int loss, int block, bool own) const {
    GradientPart part{
        .own = own,
        .applied = applied_[static_cast<std::size_t>(block)].contains(loss)};
    if (wants_target(block - 1)) {
      if (part.applied) part.leaving = 0;
      return part;
    }
    const std::vector<Losses> below = groups_at(block - 1);
    for (std::size_t i = 0; i < below.size(); ++i)
      if (below[i].contains(loss)) part.leaving = static_cast<int>(i);
    return part;
  }

  std::vector<GradientPart> parts_of(int block) const {
    std::vector<GradientPart> parts;
    if (is_own(block)) parts.push_back(part_of(block, block, true));
    if (block == count_) return parts;
    for (const Losses& group : groups_at(block))
      parts.push_back(part_of(*group.begin(), block, false));
    return parts;
  }

  const std::vector<Traits>& boundaries_;
  int count_;
  std::vector<Losses> within_reach_;  // of the boundary above the block
  std::vector<Losses> applied_;       // by the block
  std::vector<Losses> crossing_;      // the boundary above the block
};

}  // namespace

LossPaths loss_paths(const std::vector<Traits>& boundaries) {
  return Paths(boundaries).paths();
}

}  // namespace sluice
