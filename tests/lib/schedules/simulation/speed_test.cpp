#include "lib/schedules/simulation/speed.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/base/random.h"
#include "lib/schedules/simulation/capacities.h"

namespace sluice::speed_test {

constexpr Traits kBackprop = {};
constexpr Traits kLocal = {.cut = true, .from_above = false};
constexpr Traits kDelayed = {.delay = 1};
constexpr Traits kReplay = {.delay = 1, .weights = {"current", true, true}};

RunPlan plan_of(const Traits& traits, std::size_t blocks) {
  return make_run_plan(std::vector<Traits>(blocks - 1, traits), false);
}

Costs equal_costs(std::size_t blocks) {
  return {.blocks = std::vector<BlockCosts>(
              blocks, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}})};
}

Speed steady(const Traits& traits, const Costs& costs) {
  const RunPlan plan = plan_of(traits, costs.blocks.size());
  return steady_speed(plan, costs, capacities_of(plan, 2));
}

std::vector<TimedAction> timeline_of(const Traits& traits, const Costs& costs,
                                     std::int64_t turns) {
  const RunPlan plan = plan_of(traits, costs.blocks.size());
  std::vector<std::vector<Action>> actions;
  for (const BlockPlan& block : plan.blocks)
    actions.push_back(actions_of(block, {.end_turn = turns}));
  return simulate(plan, costs, capacities_of(plan, 2), actions);
}

TEST(Speed, SpeedOfBackpropIsThatOfOneBlockAndEveryBlockMostlyWaits) {
  const Speed speed = steady(kBackprop, equal_costs(4));
  EXPECT_NEAR(speed.seconds_per_turn, 12, 1e-9);
  EXPECT_NEAR(speed.speed_up, 1, 1e-9);
  for (const double part : speed.utilisation) EXPECT_NEAR(part, 0.25, 1e-9);
}

TEST(Speed, SpeedOfLocalLossesKeepsEveryBlockBusy) {
  const Speed speed = steady(kLocal, equal_costs(4));
  EXPECT_NEAR(speed.speed_up, 4, 1e-9);
  for (const double part : speed.utilisation) EXPECT_NEAR(part, 1, 1e-9);
}

TEST(Speed, WithTheSlackOfARunIsTheIdealOne) {
  EXPECT_NEAR(steady(kDelayed, equal_costs(4)).speed_up, 4, 1e-9);
  EXPECT_NEAR(steady(kReplay, equal_costs(4)).speed_up, 3, 1e-9);
}

TEST(Speed, BubbleOfBlocksThatAreAlwaysBusyIsNoLessThanNothing) {
  const double rounded_up = 1 + 1e-15;
  EXPECT_EQ(bubble_of({.utilisation = {rounded_up, rounded_up}}), 0);
}

TEST(Speed, SpeedOfAPipeIsThatOfItsSlowBlock) {
  Costs costs = equal_costs(3);
  costs.blocks[1].slowness = 1.5;
  const Speed speed = steady(kLocal, costs);
  EXPECT_NEAR(speed.seconds_per_turn, 4.5, 1e-9);
  // One block would not be slow: 9 s.
  EXPECT_NEAR(speed.speed_up, 2, 1e-9);
  EXPECT_NEAR(speed.utilisation[0], 3 / 4.5, 1e-9);
}

TEST(Speed, IsOverTheMeasuredSecondsOfOneBlockWhenTheyAreKnown) {
  Costs costs = equal_costs(2);
  costs.in_one_block = 4.5;
  EXPECT_NEAR(steady(kLocal, costs).speed_up, 1.5, 1e-9);
}

TEST(Speed, SpeedOfALinkThatIsTooNarrowIsTheLinks) {
  Costs costs = equal_costs(2);
  costs.bandwidth = 100;
  costs.bytes = {{.activation = 500, .gradient = 9e9}};
  EXPECT_NEAR(steady(kLocal, costs).seconds_per_turn, 5, 1e-9);
}

TEST(Speed, CountsAReplayAsAForwardUnlessItIsGiven) {
  Costs costs = equal_costs(2);
  EXPECT_NEAR(steady(kReplay, costs).seconds_per_turn, 4, 1e-9);
  costs.blocks[0].replay = 0;
  EXPECT_NEAR(steady(kReplay, costs).seconds_per_turn, 3, 1e-9);
}

/// Chunked and greedy training, methods/local.md 6.4: in the steady state a
/// batch takes max_k(F_k + B_k + aux_k), back-propagation sum_k(F_k + B_k).
/// (Overlapping losses of reach w add the backwards of the losses within it:
/// to come with that policy.)
TEST(CostModel, P6_EqualsTheSimulationForRandomCosts) {
  constexpr std::uint64_t kSeed = 6;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  KeyedRandom random(kSeed);
  for (int round = 0; round < 40; ++round) {
    Costs costs;
    double longest = 0;
    double sum = 0;
    const std::size_t blocks = 1 + random.below(6);
    for (std::size_t k = 0; k < blocks; ++k) {
      const BlockCosts block{
          .seconds = {{Op::forward, random.uniform(0.1, 2)},
                      {Op::backward, random.uniform(0.1, 4)}},
          .head = k + 1 < blocks ? random.uniform() : 0};
      longest = std::max(longest, block.seconds[Op::forward] +
                                      block.seconds[Op::backward] + block.head);
      sum += block.seconds[Op::forward] + block.seconds[Op::backward];
      costs.blocks.push_back(block);
    }
    const Speed greedy = steady(kLocal, costs);
    EXPECT_NEAR(greedy.seconds_per_turn, longest, 1e-9) << "round " << round;
    EXPECT_NEAR(greedy.speed_up, sum / longest, 1e-9) << "round " << round;
    for (BlockCosts& block : costs.blocks) block.head = 0;
    EXPECT_NEAR(steady(kBackprop, costs).seconds_per_turn, sum, 1e-9)
        << "round " << round;
  }
}

TEST(Costs, CostsOfAMessageAreItsBytesAndTheLatency) {
  Costs costs = equal_costs(2);
  costs.latency = 0.5;
  costs.bandwidth = 100;
  costs.bytes = {{.activation = 200}};
  for (const TimedAction& timed : timeline_of(kLocal, costs, 1)) {
    if (timed.seat == 2 && timed.action.op == Op::forward) {
      EXPECT_NEAR(timed.start, 1 + 2 + 0.5, 1e-12);
    }
  }
}

std::string starts_of(const std::vector<TimedAction>& timeline) {
  std::string text;
  for (const TimedAction& timed : timeline)
    text += fmt::format("{} ", timed.start);
  return text;
}

TEST(Jitter, ComesFromItsSeedAlone) {
  Costs costs = equal_costs(3);
  costs.jitter = 0.2;
  costs.latency = 0.1;
  const std::string once = starts_of(timeline_of(kDelayed, costs, 9));
  EXPECT_EQ(starts_of(timeline_of(kDelayed, costs, 9)), once);
  costs.seed = 2;
  EXPECT_NE(starts_of(timeline_of(kDelayed, costs, 9)), once);
}

TEST(Jitter, StaysWithinItsPartAndChangesTheMeanLittle) {
  Costs costs = equal_costs(1);
  costs.jitter = 0.2;
  double sum = 0;
  const auto timeline = timeline_of(kLocal, costs, 1000);
  for (const TimedAction& timed : timeline) {
    if (timed.action.op != Op::forward) continue;
    const double seconds = timed.end - timed.start;
    EXPECT_GT(seconds, 0.8 - 1e-9);
    EXPECT_LT(seconds, 1.2 + 1e-9);
    sum += seconds;
  }
  // The mean of 1000 has the standard deviation 0.2 / sqrt(3 * 1000).
  EXPECT_NEAR(sum / 1000, 1, 0.02);
}

// Blocks that wait for each other pay for the slowest of each turn.
TEST(Jitter, CostsSpeed) {
  Costs costs = equal_costs(4);
  costs.jitter = 0.5;
  EXPECT_LT(steady(kLocal, costs).speed_up, 3.95);
  EXPECT_GT(steady(kLocal, costs).speed_up, 3);
}

}  // namespace sluice::speed_test
