// Blocks that share cores, and what that costs them.
#include "lib/schedules/simulation/contention.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice::contention_test {

constexpr Traits kBackprop = {};
constexpr Traits kLocal = {.cut = true, .from_above = false};

RunPlan plan_of(const Traits& traits, std::size_t blocks) {
  return make_run_plan(std::vector<Traits>(blocks - 1, traits), false);
}

/// Equal blocks that share so many cores.
Costs sharing(std::size_t blocks, std::int64_t cores) {
  Costs costs{.blocks = std::vector<BlockCosts>(
                  blocks, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}})};
  SharedCores shared{.cores = cores};
  for (std::size_t k = 1; k <= blocks; ++k)
    shared.blocks.push_back(static_cast<int>(k));
  costs.shared = {shared};
  return costs;
}

Speed steady(const Traits& traits, const Costs& costs) {
  const RunPlan plan = plan_of(traits, costs.blocks.size());
  return steady_speed(plan, costs, capacities_of(plan, 2));
}

TEST(SharedCores, BoundTheSpeedOfMoreBlocksThanTheyAre) {
  EXPECT_NEAR(steady(kLocal, sharing(4, 4)).speed_up, 4, 1e-6);
  EXPECT_NEAR(steady(kLocal, sharing(4, 2)).speed_up, 2, 0.01);
  EXPECT_NEAR(steady(kLocal, sharing(4, 1)).speed_up, 1, 1e-6);
  EXPECT_NEAR(steady(kLocal, sharing(3, 2)).speed_up, 2, 0.01);
}

TEST(SharedCores, AreNeverUsedByMoreBlocksAtATime) {
  const Costs costs = sharing(5, 2);
  const RunPlan plan = plan_of(kLocal, 5);
  const auto timeline =
      simulate(plan, costs, capacities_of(plan, 2), Grant{.end_turn = 30});
  for (const TimedAction& one : timeline) {
    const auto at_once = std::count_if(
        timeline.begin(), timeline.end(), [&](const TimedAction& other) {
          return other.end > other.start && other.start <= one.start &&
                 other.end > one.start;
        });
    EXPECT_LE(at_once, 2) << "at " << one.start;
  }
}

TEST(SharedCores, CostBackpropNothingWhoseBlocksTakeTurns) {
  EXPECT_NEAR(steady(kBackprop, sharing(4, 1)).seconds_per_turn, 12, 1e-9);
}

TEST(SharedCores, SharedCoresOfTwoDevicesDontBoundEachOther) {
  Costs costs = sharing(4, 1);
  costs.shared = {{.blocks = {1, 2}, .cores = 1},
                  {.blocks = {3, 4}, .cores = 1}};
  EXPECT_NEAR(steady(kLocal, costs).speed_up, 2, 0.01);
}

TEST(SharedCores, GoToWhoeverHasWaitedLongest) {
  // Block 1 is never kept waiting by its own inputs: it must not starve the
  // others.
  for (const double part : steady(kLocal, sharing(4, 1)).utilisation)
    EXPECT_NEAR(part, 0.25, 0.01);
}

TEST(Links, CanDifferByBoundary) {
  Costs costs = sharing(3, 3);
  costs.bandwidth = 1e9;
  costs.links = {{.latency = 0.5}, {.bandwidth = 100}};
  costs.bytes = {{.activation = 500}, {.activation = 500}};
  EXPECT_NEAR(steady(kLocal, costs).seconds_per_turn, 5, 1e-9);
  costs.links[1] = {};
  EXPECT_NEAR(steady(kLocal, costs).seconds_per_turn, 3, 1e-9);
}

TEST(Contention, CostsNothingToBlocksThatTakeTurns) {
  Costs costs = sharing(2, 2);
  costs.beside = std::vector<BlockCosts>(
      2, {.seconds = {{Op::forward, 2}, {Op::backward, 4}}});
  const RunPlan plan = plan_of(kBackprop, 2);
  const Costs found = settled(plan, costs, capacities_of(plan, 2));
  EXPECT_NEAR(found.blocks[0].seconds[Op::forward], 1, 1e-9);
  EXPECT_NEAR(found.blocks[1].seconds[Op::backward], 2, 1e-9);
}

TEST(Contention, CostsAllOfItToBlocksThatAlwaysComputeTogether) {
  Costs costs = sharing(2, 2);
  costs.beside = std::vector<BlockCosts>(
      2, {.seconds = {{Op::forward, 1.1}, {Op::backward, 2.2}}});
  const RunPlan plan = plan_of(kLocal, 2);
  const auto capacities = capacities_of(plan, 2);
  const Costs found = settled(plan, costs, capacities);
  // But for the first forward, when block 2 has nothing to do.
  EXPECT_NEAR(found.blocks[0].seconds[Op::forward], 1.1, 0.002);
  EXPECT_NEAR(steady_speed(plan, found, capacities).seconds_per_turn, 3.3,
              0.005);
}

TEST(Contention, IsThePartOfTheTimeInWhichTheOtherBlockComputesToo) {
  Costs costs = sharing(2, 2);
  costs.blocks[1] = {.seconds = {{Op::forward, 0.5}, {Op::backward, 1}}};
  const RunPlan plan = plan_of(kLocal, 2);
  const auto timeline =
      simulate(plan, costs, capacities_of(plan, 2), Grant{.end_turn = 200});
  const std::vector<double> crowding = crowding_of(timeline, costs, 2);
  EXPECT_NEAR(crowding[0], 0.5, 0.01);
  EXPECT_NEAR(crowding[1], 1, 0.01);
}

TEST(Contention, BetweenDevicesIsNone) {
  Costs costs = sharing(2, 2);
  costs.shared = {{.blocks = {1}, .cores = 2}, {.blocks = {2}, .cores = 2}};
  costs.beside = std::vector<BlockCosts>(
      2, {.seconds = {{Op::forward, 9}, {Op::backward, 9}}});
  const RunPlan plan = plan_of(kLocal, 2);
  const auto capacities = capacities_of(plan, 2);
  EXPECT_NEAR(steady_speed(plan, settled(plan, costs, capacities), capacities)
                  .seconds_per_turn,
              3, 1e-9);
}

TEST(Variation, IsThatOfTheTurn) {
  Costs costs{.blocks = {{.seconds = {{Op::forward, 1}, {Op::backward, 2}}}}};
  costs.variation.resize(1);
  costs.variation[0][Op::forward] = {0.5, 1.5};
  const RunPlan plan = plan_of(kLocal, 1);
  const auto timeline = simulate(plan, costs, {}, Grant{.end_turn = 3});
  std::vector<double> forwards;
  for (const TimedAction& timed : timeline)
    if (timed.action.op == Op::forward)
      forwards.push_back(timed.end - timed.start);
  EXPECT_EQ(forwards, std::vector<double>({0.5, 1.5, 0.5}));
}

}  // namespace sluice::contention_test
