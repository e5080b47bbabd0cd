// Backwards that are made of several visits: what a block's own loss sends down
// waits for no block above, so that local losses with a reach overlap.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lib/schedules/orders/rows.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice::visits_test {

RunPlan plan_of(std::size_t blocks, const Traits& traits,
                const MicroBatches& cut = {}) {
  return find_row(schedule_rows(), "turns", "order")
      .make(std::vector<Traits>(blocks - 1, traits), {.micro_batches = cut});
}

Traits within(std::int64_t reach, ReachRule rule = ReachRule::sum) {
  return {.own = true, .reach = {reach, rule}};
}

std::string turn_of(const RunPlan& plan, int block) {
  return to_text(actions_of(plan.blocks[static_cast<std::size_t>(block) - 1],
                            {.end_turn = 1}));
}

double seconds_per_turn(const RunPlan& plan, double forward, double backward) {
  const Costs costs{
      .blocks = std::vector<BlockCosts>(
          plan.blocks.size(),
          {.seconds = {{Op::forward, forward}, {Op::backward, backward}}})};
  return steady_speed(plan, costs, capacities_of(plan, 2)).seconds_per_turn;
}

TEST(Visits, AreOneForEachWayThatAGradientTakes) {
  const RunPlan plan = plan_of(4, within(1));
  // The highest has but its own loss, the lowest sends nothing down.
  EXPECT_EQ(turn_of(plan, 4), "F0 B0 U0");
  EXPECT_EQ(turn_of(plan, 3), "F0 B0 B0.1 U0");
  EXPECT_EQ(turn_of(plan, 2), "F0 B0 B0.1 U0");
  EXPECT_EQ(turn_of(plan, 1), "F0 B0 U0");
}

TEST(Visits, SendTheOwnPartDownBeforeTheyTakeAnotherFromAbove) {
  const RunPlan plan = plan_of(4, within(1));
  const Action own{Op::backward, 0};
  const Action above{.op = Op::backward, .round = 1};
  EXPECT_TRUE(needs_of(plan, 2, own).empty());
  EXPECT_EQ(yields_of(plan, 2, own).size(), 1U);
  const auto needs = needs_of(plan, 2, above);
  ASSERT_EQ(needs.size(), 1U);
  EXPECT_EQ(needs[0].round, 0);  // the own part of block 3
  EXPECT_TRUE(yields_of(plan, 2, above).empty());
}

TEST(Visits, VisitsOfAFurtherReachRelayWhatGoesOn) {
  const RunPlan plan = plan_of(5, within(2));
  EXPECT_EQ(turn_of(plan, 3), "F0 B0 B0.1 B0.2 U0");
  const auto relayed =
      yields_of(plan, 3, {.op = Op::backward, .batch = 0, .round = 1});
  ASSERT_EQ(relayed.size(), 1U);
  EXPECT_EQ(relayed[0].round, 1);
}

TEST(Visits, ArePutOffByABatchWhereATurnHasSeveral) {
  const RunPlan plan = plan_of(3, within(1), {.count = 3, .samples = 6});
  EXPECT_EQ(turn_of(plan, 2), "F0 B0 F1 B1 B0.1 F2 B2 B1.1 B2.1 U2");
}

TEST(Visits, AreNotMadeOfWhatGoesOneWay) {
  for (const Traits& traits :
       {Traits{}, Traits{.cut = true, .from_above = false}, Traits{.delay = 1},
        within(3)})
    for (const BlockPlan& block : plan_of(4, traits).blocks)
      EXPECT_EQ(block.rounds(), 1) << "block " << block.block;
}

/// Laskin et al. 2020: overlapping blocks wait for their neighbours only. A
/// turn is two backwards and, since no block may forward the next batch before
/// it has the gradient from above, two forwards; whatever the depth.
TEST(Visits, MakeTheTimeOfATurnIndependentOfTheDepth) {
  for (const std::size_t blocks : {3, 4, 8})
    for (const ReachRule rule : {ReachRule::sum, ReachRule::furthest})
      EXPECT_NEAR(seconds_per_turn(plan_of(blocks, within(1, rule)), 1, 2), 6,
                  1e-9)
          << blocks << " blocks";
  EXPECT_NEAR(seconds_per_turn(plan_of(8, Traits{}), 1, 2), 24, 1e-9);
}

TEST(Visits, VisitsOfSeveralBatchesHideTheForwardsToo) {
  // 8 (F + 2 B) = 40 s, where each batch by itself would take 8 * 6 s.
  const MicroBatches cut{.count = 8, .samples = 8};
  EXPECT_LE(seconds_per_turn(plan_of(4, within(1), cut), 1, 2), 44);
}

}  // namespace sluice::visits_test
