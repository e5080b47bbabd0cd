// Mixtures of losses that reach further than their own block: each boundary has
// a reach and a rule of its own. A schedule is played with sets of losses in
// place of gradients, and each block must apply those that the rules name, each
// once, whatever the order of its blocks. tests/lib/boundaries/policies/
// reach_test.cpp has the numbers.
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::reach_mixtures_test {

/// By the block above which their head stands, as often as they were added.
using Losses = std::multiset<int>;
using Mixture = std::vector<Traits>;  // bottom first

Traits local_loss(std::int64_t reach, ReachRule rule) {
  if (reach == 0) return {.cut = true, .from_above = false, .own = true};
  return {.own = true, .reach = {reach, rule}};
}

/// What a boundary may be: local losses of reach 0 to 3, by either rule, and
/// backprop whose reach ends somewhere or nowhere.
std::vector<Traits> choices() {
  std::vector<Traits> all = {local_loss(0, ReachRule::sum)};
  for (const std::int64_t reach : {1, 2, 3})
    for (const ReachRule rule : {ReachRule::sum, ReachRule::furthest})
      all.push_back(local_loss(reach, rule));
  all.push_back({});
  all.push_back({.reach = {1}});
  all.push_back({.reach = {2}});
  return all;
}

std::vector<Mixture> mixtures(int blocks, const std::vector<Traits>& of) {
  std::vector<Mixture> all = {{}};
  for (int boundary = 1; boundary < blocks; ++boundary) {
    std::vector<Mixture> longer;
    for (const Mixture& below : all)
      for (const Traits& next : of) {
        longer.push_back(below);
        longer.back().push_back(next);
      }
    all = std::move(longer);
  }
  return all;
}

std::string text_of(const Mixture& mixture) {
  std::string text;
  for (const Traits& each : mixture) {
    if (each.cut)
      text += " [greedy]";
    else
      text +=
          fmt::format(" [{}reach {}{}]", each.own ? "" : "backprop, ",
                      each.reach.blocks == kUnbounded ? -1 : each.reach.blocks,
                      each.reach.rule == ReachRule::sum ? "" : ", furthest");
  }
  return text;
}

/// Whether there is a loss at the top of the block.
bool has_loss(const Mixture& mixture, int block) {
  return block > std::ssize(mixture) || by_block(mixture, block).own;
}

/// The losses that shall move a block, by the definition: of those above it
/// that every boundary between lets pass all, or the furthest.
Losses expected_of(const Mixture& mixture, int block) {
  const int blocks = static_cast<int>(std::ssize(mixture)) + 1;
  Losses found;
  for (int loss = block; loss <= blocks; ++loss) {
    bool passes = has_loss(mixture, loss);
    for (int k = block; k < loss; ++k) {
      const Traits& boundary = by_block(mixture, k);
      passes = passes && !boundary.cut && loss - k <= boundary.reach.blocks;
    }
    if (passes) found.insert(loss);
  }
  const bool is_furthest =
      block < blocks &&
      by_block(mixture, block).reach.rule == ReachRule::furthest;
  if (is_furthest && !found.empty()) found = {*found.rbegin()};
  return found;
}

/// The rules that docs/concepts/reach.md states.
bool shall_be_refused(const Mixture& mixture) {
  const int blocks = static_cast<int>(std::ssize(mixture)) + 1;
  for (const Traits& each : mixture)
    if (!each.cut && each.reach.blocks != kUnbounded &&
        each.reach.blocks >= blocks)
      return true;
  for (int block = 1; block <= blocks; ++block)
    if (expected_of(mixture, block).empty()) return true;
  return false;
}

/// A message down: the losses of each gradient in it, by GradientFlow::leaving.
using Down = std::vector<Losses>;
using MessageKey = std::tuple<int, std::int64_t, std::int64_t>;

/// Does what a seat does, with losses in place of gradients.
class LossReplay {
 public:
  explicit LossReplay(const RunPlan& plan) : plan_(plan) {}

  void backward(int block, const Action& action) {
    const BlockPlan& mine = by_block(plan_.blocks, block);
    std::map<std::int64_t, Down> taken;  // by round
    for (const Transfer& need : needs_of(plan_, block, action))
      if (need.kind == MessageKind::gradient)
        taken[need.round] = down_.at({need.from, need.batch, need.round});
    Down sent(static_cast<std::size_t>(mine.gradients.leaving));
    Losses& applied = applied_[{block, action.batch}];
    const auto add = [&](const GradientPart& part, const Losses& losses) {
      if (part.applied) applied.insert(losses.begin(), losses.end());
      if (part.leaving != GradientPart::kStays)
        sent.at(static_cast<std::size_t>(part.leaving))
            .insert(losses.begin(), losses.end());
    };
    if (mine.visits.empty()) {
      std::size_t way = 0;
      for (const GradientPart& part : mine.gradients.parts)
        add(part, part.own ? Losses{block} : taken.at(0).at(way++));
    } else {
      const BackwardVisit& visit =
          mine.visits.at(static_cast<std::size_t>(action.round));
      if (visit.own) add(mine.gradients.parts.front(), {block});
      for (const Arrival& from : visit.arrivals)
        add(mine.gradients.arriving(from.way),
            taken.at(from.round).at(from.way));
    }
    for (const Transfer& yield : yields_of(plan_, block, action))
      if (yield.kind == MessageKind::gradient)
        down_[{yield.from, yield.batch, yield.round}] = sent;
  }

  Losses applied(int block, std::int64_t batch) const {
    return applied_.at({block, batch});
  }

 private:
  const RunPlan& plan_;
  std::map<MessageKey, Down> down_;
  std::map<std::pair<int, std::int64_t>, Losses> applied_;
};

RunPlan plan_of(const Mixture& mixture, const char* order, std::int64_t count) {
  return find_row(schedule_rows(), order, "order")
      .make(mixture, {.micro_batches = {.count = count, .samples = count}});
}

/// What goes wrong with the mixture; empty: nothing.
std::string fault_of(const Mixture& mixture, const char* order,
                     std::int64_t count) {
  RunPlan plan;
  try {
    plan = plan_of(mixture, order, count);
  } catch (const UserError& error) {
    return shall_be_refused(mixture) ? "" : error.what();
  }
  if (shall_be_refused(mixture)) return "is taken, and no rule admits it";
  const Grant grant{.end_turn = 2, .drain = true};
  try {
    LossReplay played(plan);
    for (const TimedAction& timed :
         simulate(plan, {}, capacities_of(plan, 0), grant))
      if (timed.action.op == Op::backward)
        played.backward(timed.seat, timed.action);
    for (const BlockPlan& block : plan.blocks)
      for (std::int64_t batch = 0; batch < grant.end_turn * count; ++batch)
        if (played.applied(block.block, batch) !=
            expected_of(mixture, block.block))
          return fmt::format("block {} applies other losses of batch {}",
                             block.block, batch);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Counts the mixtures that run.
int expect_all(const std::vector<Mixture>& all, const char* order,
               std::int64_t count) {
  int taken = 0;
  for (const Mixture& mixture : all) {
    EXPECT_EQ(fault_of(mixture, order, count), "")
        << order << ", " << count << ":" << text_of(mixture);
    if (testing::Test::HasFailure()) break;
    if (!shall_be_refused(mixture)) ++taken;
  }
  return taken;
}

TEST(MixturesOfReach, ApplyTheLossesThatTheirRulesNameOrAreRefusedByOne) {
  for (const int blocks : {2, 3, 4})
    EXPECT_GT(expect_all(mixtures(blocks, choices()), "turns", 1), 0) << blocks;
}

TEST(MixturesOfReach, NetworksOfFiveBlocksApplyTheLossesThatTheirRulesName) {
  std::vector<Traits> local = choices();
  local.resize(7);  // those of local losses alone
  EXPECT_EQ(expect_all(mixtures(5, local), "turns", 1), 7 * 7 * 7 * 7);
}

TEST(MixturesOfReach, NetworksOfMicroBatchesApplyEachLossOnce) {
  for (const int blocks : {2, 3, 4})
    for (const char* order : {"turns", "gpipe", "1f1b"})
      EXPECT_GT(expect_all(mixtures(blocks, choices()), order, 3), 0);
}

// The pairs and the mixture that waited for themselves: two parts of one way
// down had a message each, of which the block below awaited the last.
TEST(MixturesOfReach, SendOneMessageDownForPartsThatLeaveOneWay) {
  const Traits sum = local_loss(2, ReachRule::sum);
  const Traits furthest = local_loss(1, ReachRule::furthest);
  const Traits near = local_loss(1, ReachRule::sum);
  for (const Mixture& mixture :
       {Mixture{sum, furthest},
        Mixture{local_loss(2, ReachRule::furthest), furthest},
        Mixture{sum, furthest, near}}) {
    const RunPlan plan = plan_of(mixture, "turns", 1);
    for (const BlockPlan& block : plan.blocks) {
      std::set<int> ways;
      for (const BackwardVisit& visit : block.visits)
        if (visit.leaving != GradientPart::kStays) {
          EXPECT_TRUE(ways.insert(visit.leaving).second)
              << text_of(mixture) << ", block " << block.block;
        }
    }
    EXPECT_EQ(fault_of(mixture, "turns", 1), "");
  }
}

}  // namespace sluice::reach_mixtures_test
