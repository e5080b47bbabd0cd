// Backwards of batches whose auxiliary variables move several times: the visits
// that a schedule makes of them, and how long they take.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice::sweeps_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

Traits moving(std::int64_t steps, bool at_once = false) {
  Traits traits;
  traits.lower.publishes = true;
  traits.lower.sweeps = {.steps = steps, .at_once = at_once};
  return traits;
}

RunPlan plan_of(const std::vector<Traits>& boundaries,
                const ScheduleOptions& options = {},
                const char* row = "turns") {
  return find_row(schedule_rows(), row, "order").make(boundaries, options);
}

RunPlan plan_of(std::size_t blocks, const Traits& traits) {
  return plan_of(std::vector<Traits>(blocks - 1, traits));
}

std::string turn_of(const RunPlan& plan, int block) {
  return to_text(actions_of(by_block(plan.blocks, block), {.end_turn = 1}));
}

double seconds_per_turn(const RunPlan& plan) {
  const Costs costs{.blocks = std::vector<BlockCosts>(
                        plan.blocks.size(),
                        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}})};
  return steady_speed(plan, costs, capacities_of(plan, 2)).seconds_per_turn;
}

TEST(Sweeps, SweepsOfOneStepFromTheTopAreAPlainBackward) {
  for (int block = 1; block <= 3; ++block)
    EXPECT_EQ(turn_of(plan_of(3, moving(1)), block), "F0 B0 U0");
}

TEST(Sweeps, FromTheTopVisitABatchOnceForEachStep) {
  const RunPlan plan = plan_of(3, moving(3));
  for (int block = 1; block <= 3; ++block)
    EXPECT_EQ(turn_of(plan, block), "F0 B0 B0.1 B0.2 U0");
}

TEST(Sweeps, AtOnceVisitItTwiceForEachStepAndOnceForTheWeights) {
  const RunPlan plan = plan_of(3, moving(2, true));
  for (int block = 1; block <= 3; ++block)
    EXPECT_EQ(turn_of(plan, block), "F0 B0 B0.1 B0.2 B0.3 B0.4 U0");
}

TEST(Sweeps, TakeAndSendAMessageEachWay) {
  const RunPlan plan = plan_of(3, moving(3));
  const auto visit = [](std::int64_t round) {
    return Action{.op = Op::backward, .round = round};
  };
  EXPECT_THAT(needs_of(plan, 2, visit(1)),
              testing::UnorderedElementsAre(
                  Transfer{MessageKind::gradient, 3, 2, 0, 1},
                  Transfer{MessageKind::activation, 1, 2, 0, 1}));
  EXPECT_THAT(yields_of(plan, 2, visit(1)),
              testing::UnorderedElementsAre(
                  Transfer{MessageKind::gradient, 2, 1, 0, 1},
                  Transfer{MessageKind::activation, 2, 3, 0, 2}));
  // The first has the forward's input, and after the last nothing goes up.
  EXPECT_EQ(needs_of(plan, 2, visit(0)).size(), 1U);
  EXPECT_EQ(yields_of(plan, 2, visit(2)).size(), 1U);
}

/// Every message that a block takes is one that its neighbour sends.
TEST(Sweeps, AllThatIsSentIsTaken) {
  for (const Traits& traits : {moving(3), moving(1, true), moving(3, true)}) {
    const RunPlan plan = plan_of(4, traits);
    std::vector<Transfer> sent;
    std::vector<Transfer> taken;
    for (int block = 1; block <= 4; ++block)
      for (const Action& action :
           actions_of(by_block(plan.blocks, block), {.end_turn = 2})) {
        for (const Transfer& one : yields_of(plan, block, action))
          sent.push_back(one);
        for (const Transfer& one : needs_of(plan, block, action))
          taken.push_back(one);
      }
    EXPECT_THAT(taken, testing::UnorderedElementsAreArray(sent));
  }
}

/// A sweep from the top goes through all blocks; at once each waits for its
/// neighbours alone, so that the depth of the network costs a forward.
TEST(Sweeps, AtOnceTakeNoLongerInADeeperNetwork) {
  const auto grows = [](bool at_once) {
    return seconds_per_turn(plan_of(8, moving(4, at_once))) -
           seconds_per_turn(plan_of(4, moving(4, at_once)));
  };
  EXPECT_LE(grows(true), 4 * 1 + 1e-9);
  EXPECT_GT(grows(false), 4 * 2);
}

/// F 1, B 2: a visit that sends down only is a half, one after the first
/// forwards again.
TEST(Sweeps, CostWhatTheyCompute) {
  const Costs costs{.blocks = std::vector<BlockCosts>(
                        3, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}})};
  const auto seconds = [&](const RunPlan& plan, int block) {
    std::vector<double> each;
    for (std::int64_t round = 0; round < plan.blocks[0].rounds(); ++round)
      each.push_back(seconds_of(costs, by_block(plan.blocks, block),
                                {.op = Op::backward, .round = round}));
    return each;
  };
  const RunPlan down = plan_of(3, moving(2));
  EXPECT_THAT(seconds(down, 1), testing::ElementsAre(0, 2));
  EXPECT_THAT(seconds(down, 2), testing::ElementsAre(1, 3));
  EXPECT_THAT(seconds(down, 3), testing::ElementsAre(1, 3));
  const RunPlan at_once = plan_of(3, moving(1, true));
  EXPECT_THAT(seconds(at_once, 1), testing::ElementsAre(0, 0, 2));
  EXPECT_THAT(seconds(at_once, 2), testing::ElementsAre(1, 0, 2));
}

TEST(Sweeps, AreTheSameAtAllBoundaries) {
  EXPECT_THAT(
      [] {
        plan_of({moving(3), moving(2)});
      },
      ThrowsMessage<UserError>(HasSubstr("move together")));
  EXPECT_THAT(
      [] {
        plan_of({Traits{}, moving(2)});
      },
      ThrowsMessage<UserError>(HasSubstr("boundary 1")));
}

TEST(Sweeps, NeedBlocksThatWaitForEachOther) {
  EXPECT_THAT([] { plan_of({moving(2)}, {.in_flight = 2}, "free"); },
              ThrowsMessage<UserError>(HasSubstr("schedule = 'lockstep'")));
  EXPECT_THAT(
      [] {
        plan_of({moving(2)}, {.micro_batches = {.count = 2, .samples = 4}});
      },
      ThrowsMessage<UserError>(HasSubstr("micro_batches = 1")));
}

/// Block 1 takes the loss of block 3 alone, where the losses of blocks 3 and 4
/// move block 2.
TEST(Sweeps, AVariableMovesByOneGradient) {
  const std::vector<Traits> boundaries = {Traits{.reach = {2}}, moving(1),
                                          Traits{.own = true}};
  EXPECT_THAT([&] { plan_of(boundaries); },
              ThrowsMessage<UserError>(HasSubstr("boundary 2: its variable")));
}

}  // namespace sluice::sweeps_test
