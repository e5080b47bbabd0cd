// A simulation that has begun to repeat itself needs not go on.
#include "lib/schedules/simulation/repetition.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "lib/schedules/orders/rows.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice::repetition_test {

constexpr Traits kBackprop = {};
constexpr Traits kDelayed = {.delay = 1};
constexpr Traits kLocal = {.cut = true, .from_above = false};
constexpr ReplicaExchange kGradients{.what = ExchangedTensors::gradients};

RunPlan plan_of(const Traits& boundary, std::string_view order = "turns",
                const ScheduleOptions& options = {}) {
  return find_row(schedule_rows(), order, "order")
      .make(std::vector<Traits>(3, boundary), options);
}

ScheduleOptions in_parts(std::int64_t micro_batches) {
  ScheduleOptions options;
  options.micro_batches = {.count = micro_batches, .samples = micro_batches};
  return options;
}

/// Costs whose sums have to be rounded.
Costs uneven_costs() {
  Costs costs{.latency = 0.1};
  for (const double slowness : {1.0, 1.7, 0.9, 1.3})
    costs.blocks.push_back({.seconds = {{Op::forward, 0.3},
                                        {Op::backward, 0.7},
                                        {Op::update, 0.1}},
                            .slowness = slowness});
  costs.exchange_bytes = {3, 1, 4, 1};
  costs.exchange_link = {.latency = 0.05, .bandwidth = 7};
  costs.bandwidth = 9;
  costs.bytes = std::vector<MessageBytes>(4, {.activation = 2, .gradient = 1});
  return costs;
}

std::optional<std::int64_t> period_of(const RunPlan& plan, const Costs& costs) {
  Simulation simulation =
      granted(plan, costs, capacities_of(plan, 2), {.end_turn = 300});
  Repetition repetition(plan, costs, 120, 840);
  while (const auto timed = simulation.next())
    if (const auto period = repetition.after(*timed, simulation))
      return period->turns;
  return std::nullopt;
}

void expect_speed_of_the_whole(const RunPlan& plan, const Costs& costs) {
  const std::vector<Capacity> capacities = capacities_of(plan, 2);
  const Speed whole =
      speed_of(simulate(plan, costs, capacities, Grant{.end_turn = 1080}), plan,
               costs, 120, 960);
  const Speed early = steady_speed(plan, costs, capacities);
  EXPECT_NEAR(early.seconds_per_turn, whole.seconds_per_turn, 1e-9);
  EXPECT_NEAR(early.speed_up, whole.speed_up, 1e-9);
  EXPECT_NEAR(early.bytes_per_turn, whole.bytes_per_turn, 1e-9);
  ASSERT_EQ(early.utilisation.size(), whole.utilisation.size());
  for (std::size_t k = 0; k < whole.utilisation.size(); ++k)
    EXPECT_NEAR(early.utilisation[k], whole.utilisation[k], 1e-9);
}

TEST(Repetition, SpeedUntilThenIsThatOfTheWholeTimetable) {
  for (const Traits& boundary : {kBackprop, kDelayed, kLocal}) {
    const RunPlan plan = plan_of(boundary);
    EXPECT_TRUE(period_of(plan, uneven_costs()));
    expect_speed_of_the_whole(plan, uneven_costs());
  }
}

TEST(Repetition, SpeedOfAPipelineIsThatOfTheWholeTimetable) {
  for (const char* order : {"gpipe", "1f1b", "zb-h1", "zb-v"}) {
    const RunPlan plan = plan_of(kBackprop, order, in_parts(6));
    EXPECT_TRUE(period_of(plan, uneven_costs())) << order;
    expect_speed_of_the_whole(plan, uneven_costs());
  }
}

TEST(Repetition, SpeedOfReplicasIsThatOfTheWholeTimetable) {
  const RunPlan one = plan_of(kDelayed);
  const RunPlan sums = with_replicas(one, 3, kGradients);
  const RunPlan averages = with_replicas(
      one, 3, {.what = ExchangedTensors::weights, .every = 4}, true);
  const RunPlan uneven =
      with_uneven_replicas(plan_of(kBackprop), {4, 2, 1, 4}, kGradients);
  for (const RunPlan& plan : {sums, averages, uneven}) {
    EXPECT_TRUE(period_of(plan, uneven_costs()));
    expect_speed_of_the_whole(plan, uneven_costs());
  }
}

TEST(Repetition, SpeedOfBlocksThatShareCoresIsThatOfTheWholeTimetable) {
  Costs costs = uneven_costs();
  costs.shared = {{.blocks = {1, 2, 4}, .cores = 2}};
  EXPECT_TRUE(period_of(plan_of(kLocal), costs));
  expect_speed_of_the_whole(plan_of(kLocal), costs);
}

TEST(Repetition, PeriodIsAMultipleOfTheTurnsOfAWindow) {
  ScheduleOptions options;
  options.accumulate = 3;
  const auto period =
      period_of(plan_of(kLocal, "turns", options), uneven_costs());
  ASSERT_TRUE(period);
  EXPECT_EQ(*period % 3, 0);
}

TEST(Repetition, JitterNeverRepeatsItself) {
  Costs costs = uneven_costs();
  costs.jitter = 0.1;
  EXPECT_EQ(turns_that_repeat(plan_of(kLocal), costs), 0);
  expect_speed_of_the_whole(plan_of(kLocal), costs);
}

TEST(Repetition, BlocksThatRunFreeAreSimulatedToTheEnd) {
  EXPECT_EQ(turns_that_repeat(plan_of(kLocal, "free"), uneven_costs()), 0);
}

/// A simulation makes the actions of a grant a few turns at a time.
TEST(Programs, ProgramOfAGrantIsThatOfItsTurns) {
  for (const char* order : {"turns", "gpipe", "1f1b", "zb-h1"})
    for (const BlockPlan& block :
         plan_of(kBackprop, order, in_parts(6)).blocks) {
      std::vector<Action> turn_by_turn;
      for (std::int64_t turn = 0; turn < 5; ++turn)
        for (const Action& action :
             actions_of(block, {.first_turn = turn, .end_turn = turn + 1}))
          turn_by_turn.push_back(action);
      EXPECT_EQ(turn_by_turn, actions_of(block, {.end_turn = 5})) << order;
    }
}

}  // namespace sluice::repetition_test
