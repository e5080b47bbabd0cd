// Turns that are cut into several batches, batches that are visited several
// times, and backwards in two halves, as schedules see them.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/ledger.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/plan/program.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::micro_batches_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

const Traits kBackprop{};
const Traits kLocal{.cut = true, .from_above = false};

RunPlan plan_of(const std::vector<Traits>& boundaries,
                const MicroBatches& micro_batches,
                std::int64_t accumulate = 1) {
  return find_row(schedule_rows(), "turns", "order")
      .make(boundaries,
            {.accumulate = accumulate, .micro_batches = micro_batches});
}

std::string text_of(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions) text += to_text(action) + " ";
  return text;
}

TEST(MicroBatches, HaveTheSamplesOfTheirTurn) {
  // An epoch of 41 samples: turns of 16, 16 and 9, cut into 4, 4 and 3.
  const MicroBatches cut{
      .count = 4, .samples = 16, .turns_per_epoch = 3, .last_samples = 9};
  EXPECT_EQ(cut.batches_in(0), 4);
  EXPECT_EQ(cut.batches_in(2), 3) << "4, 4 and 1 of 9 samples";
  EXPECT_EQ(cut.batches_in(3), 4) << "the next epoch";
  EXPECT_EQ(cut.size_of(10), 1);
  EXPECT_EQ(cut.begin_of(10), 8);
  EXPECT_TRUE(cut.ends_turn(10));
  EXPECT_FALSE(cut.ends_turn(9));
  EXPECT_EQ(cut.turn_of(12), 3) << "number 11 is left out";
  for (std::int64_t turn = 0; turn < 6; ++turn) {
    double shares = 0;
    std::int64_t samples = 0;
    for (std::int64_t i = 0; i < cut.batches_in(turn); ++i) {
      shares += cut.share_of(cut.first_of(turn) + i);
      samples += cut.size_of(cut.first_of(turn) + i);
    }
    EXPECT_DOUBLE_EQ(shares, 1) << turn;
    EXPECT_EQ(samples, cut.samples_in(turn));
  }
}

TEST(MicroBatches, MicroBatchesOfATurnAreSummedForItsUpdate) {
  const RunPlan plan = plan_of({kBackprop}, {.count = 2, .samples = 4});
  EXPECT_EQ(text_of(actions_of(plan.blocks[1], {.end_turn = 2})),
            "F0 B0 F1 B1 U1 F2 B2 F3 B3 U3 ");
  const RunPlan two = plan_of({kBackprop}, {.count = 2, .samples = 4}, 2);
  EXPECT_EQ(text_of(actions_of(two.blocks[0], {.end_turn = 3})),
            "F0 B0 F1 B1 F2 B2 F3 B3 U3 F4 B4 F5 B5 ");
}

TEST(MicroBatches, MicroBatchesOfAShortTurnAreFewer) {
  const RunPlan plan = plan_of(
      {kLocal},
      {.count = 3, .samples = 6, .turns_per_epoch = 2, .last_samples = 3});
  EXPECT_EQ(text_of(actions_of(plan.blocks[0], {.end_turn = 3})),
            "F0 B0 F1 B1 F2 B2 U2 F3 B3 F4 B4 U4 F6 B6 F7 B7 F8 B8 U8 ");
}

TEST(MicroBatches, AreRefusedWhereABoundaryDelays) {
  const MicroBatches two{.count = 2, .samples = 4};
  EXPECT_THAT([&] { plan_of({{.delay = 1}}, two); },
              ThrowsMessage<UserError>(HasSubstr("pipeline.micro_batches")));
  EXPECT_THAT(
      [&] {
        plan_of({{.cut = true, .lower = {.learns = true, .target_delay = 1}}},
                two);
      },
      ThrowsMessage<UserError>(HasSubstr("boundary 1")));
  EXPECT_THAT(
      [&] {
        find_row(schedule_rows(), "free", "order")
            .make({kLocal}, {.micro_batches = two});
      },
      ThrowsMessage<UserError>(HasSubstr("schedule = 'free'")));
}

BlockProgram in_halves(const BlockPlan& plan, const Grant& grant) {
  return with_split_backwards(turns_of(plan, grant));
}

TEST(SplitBackward, SendsDownBeforeItTakesTheGradientOfTheWeights) {
  RunPlan plan = plan_of({kBackprop}, {});
  for (BlockPlan& block : plan.blocks) block.program = in_halves;
  EXPECT_EQ(text_of(actions_of(plan.blocks[0], {.end_turn = 1})),
            "F0 D0 W0 U0 ");
  const std::vector<Capacity> capacities = capacities_of(plan, 0);
  const Costs costs{.blocks = std::vector<BlockCosts>(
                        2, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}})};
  const auto end_with = [&](const RunPlan& which) {
    return simulate(which, costs, capacities, Grant{.end_turn = 1}).back().end;
  };
  EXPECT_EQ(end_with(plan_of({kBackprop}, {})), 6);
  EXPECT_EQ(end_with(plan), 5) << "the lower block goes on a second earlier";
}

TEST(SplitBackward, WantsItsFirstHalf) {
  const RunPlan plan = plan_of({}, {});
  EXPECT_THAT(
      [&] { simulate(plan, {}, {}, {actions_from_text("F0 W0 D0 U0")}); },
      ThrowsMessage<UserError>(
          HasSubstr("block 1 (W0) lacks a backward input of batch 0")));
  EXPECT_NO_THROW(
      simulate(plan, {}, {}, {actions_from_text("F0 F1 D0 D1 W0 W1 U1")}));
}

TEST(Rounds, AreVisitsOfTheirOwn) {
  const std::vector<Action> actions = actions_from_text("F3 F3.1 B3.1");
  EXPECT_EQ(actions[1].round, 1);
  EXPECT_EQ(text_of(actions), "F3 F3.1 B3.1 ");
  EXPECT_THROW(actions_from_text("F3.0"), UserError) << "that is F3";
  Ledger ledger;
  const BlockPlan plan;
  ledger.did(plan, actions[1]);
  EXPECT_TRUE(ledger.may(actions[2]));
  EXPECT_FALSE(ledger.may({.op = Op::backward, .batch = 3}));
  EXPECT_EQ(ledger.lacks({.op = Op::backward, .batch = 3, .round = 2}),
            "a forward of batch 3.2 before it");
}

TEST(Rounds, RoundsOfAMessageAreThoseOfItsAction) {
  const RunPlan plan = plan_of({kLocal}, {});
  const std::vector<Transfer> sent =
      yields_of(plan, 1, {.op = Op::forward, .batch = 3, .round = 2});
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].round, 2);
  EXPECT_THROW(simulate(plan, {}, {{2, 2}},
                        {actions_from_text("F0 B0 U0"),
                         actions_from_text("F0.1 B0.1 U0.1")}),
               UserError);
}

}  // namespace sluice::micro_batches_test
