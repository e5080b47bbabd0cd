#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"
#include "tests/lib/schedules/pipeline_plans.h"

namespace sluice::one_f_one_b_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(OneForwardOneBackward, RunsAheadByTheBlocksAbove) {
  const RunPlan plan = pipeline_plan("1f1b", {{}, {}}, 4);
  EXPECT_EQ(first_turn_of(plan, 1), "F0 F1 F2 B0 F3 B1 B2 B3 U3");
  EXPECT_EQ(first_turn_of(plan, 2), "F0 F1 B0 F2 B1 F3 B2 B3 U3");
  EXPECT_EQ(first_turn_of(plan, 3), "F0 B0 F1 B1 F2 B2 F3 B3 U3");
}

TEST(OneForwardOneBackward, RunsAheadByNoMoreThanItHas) {
  const RunPlan plan = pipeline_plan("1f1b", {{}, {}, {}}, 2);
  EXPECT_EQ(first_turn_of(plan, 1), "F0 F1 B0 B1 U1");
  EXPECT_EQ(first_turn_of(plan, 3), "F0 F1 B0 B1 U1") << "one block above it";
}

TEST(OneForwardOneBackward, CountsNoBlocksAboveACut) {
  const Traits cut{.cut = true, .from_above = false};
  const RunPlan plan = pipeline_plan("1f1b", {{}, cut, {}}, 4);
  EXPECT_EQ(first_turn_of(plan, 1), "F0 F1 B0 F2 B1 F3 B2 B3 U3");
  EXPECT_EQ(first_turn_of(plan, 2), first_turn_of(plan, 4));
  EXPECT_EQ(first_turn_of(plan, 3), first_turn_of(plan, 1));
}

TEST(OneForwardOneBackward, CountsNoBlocksThatOnlyTeachASynthesizer) {
  const Traits synthetic{.cut = true, .lower = {.learns = true}};
  const RunPlan plan = pipeline_plan("1f1b", {synthetic}, 2);
  EXPECT_EQ(first_turn_of(plan, 1), "F0 B0 F1 B1 U1 L0 L1");
}

TEST(OneForwardOneBackward,
     OneForwardOneBackwardOfAShortTurnIsThatOfItsBatches) {
  const MicroBatches cut{
      .count = 4, .samples = 8, .turns_per_epoch = 2, .last_samples = 3};
  const RunPlan plan = pipeline_plan("1f1b", {{}, {}, {}}, cut);
  EXPECT_EQ(
      to_text(actions_of(plan.blocks[1], {.first_turn = 1, .end_turn = 2})),
      "F4 F5 B4 B5 U5");
}

/// Without a flush between turns.
RunPlan flowing_plan(std::int64_t micro_batches, std::size_t blocks = 3) {
  return find_row(schedule_rows(), "1f1b", "order")
      .make(std::vector<Traits>(blocks - 1),
            {.micro_batches = {.count = micro_batches,
                               .samples = 2 * micro_batches},
             .window_weights = {.view = "any", .by_window = true},
             .flush = false});
}

TEST(OneForwardOneBackward, WithoutAFlushGoesOnWithTheNextTurn) {
  const RunPlan plan = flowing_plan(2);
  const Grant grant{.end_turn = 2};
  EXPECT_EQ(to_text(actions_of(plan.blocks[0], grant)),
            "F0 F1 F2 B0 F3 B1 U1 B2 B3 U3");
  EXPECT_EQ(to_text(actions_of(plan.blocks[2], grant)),
            "F0 B0 F1 B1 U1 F2 B2 F3 B3 U3");
}

TEST(OneForwardOneBackward, WithoutAFlushRunsTwiceAsFarAheadWhereItMay) {
  const auto first_turn = [](std::int64_t micro_batches, int block) {
    return first_turn_of(flowing_plan(micro_batches), block);
  };
  EXPECT_EQ(first_turn(4, 1), "F0 F1 F2 F3 B0 B1 B2 B3 U3");
  EXPECT_EQ(first_turn(4, 2), "F0 F1 F2 B0 F3 B1 B2 B3 U3");
  EXPECT_EQ(first_turn(4, 3), "F0 B0 F1 B1 F2 B2 F3 B3 U3");
  EXPECT_EQ(to_text(actions_of(flowing_plan(2).blocks[0], {.end_turn = 2})),
            "F0 F1 F2 B0 F3 B1 U1 B2 B3 U3")
      << "two versions of the weights allow no more";
}

/// Batches take 2 + 3 seconds in each block.
double seconds_of_turns(const RunPlan& plan, std::int64_t turns,
                        double latency) {
  Costs costs{.latency = latency};
  costs.blocks.assign(plan.blocks.size(),
                      {.seconds = {{Op::forward, 2.0}, {Op::backward, 3.0}}});
  double end = 0;
  for (const TimedAction& timed :
       simulate(plan, costs, capacities_of(plan, 2), Grant{.end_turn = turns}))
    end = std::max(end, timed.end);
  return end;
}

TEST(OneForwardOneBackward, WithoutAFlushFillsThePipeOnceWhateverTheTurnsHave) {
  for (const std::int64_t blocks : {2, 3, 4, 6})
    for (std::int64_t batches = blocks - 1; batches <= 2 * blocks; ++batches)
      EXPECT_EQ(
          seconds_of_turns(
              flowing_plan(batches, static_cast<std::size_t>(blocks)), 5, 0),
          static_cast<double>(5 * batches + blocks - 1) * (2 + 3))
          << blocks << " blocks, " << batches << " batches";
}

TEST(OneForwardOneBackward, WithoutAFlushHidesMessagesOfHalfABatchsTime) {
  const auto turn = [](double latency) {
    const RunPlan plan = flowing_plan(4);
    return seconds_of_turns(plan, 9, latency) -
           seconds_of_turns(plan, 8, latency);
  };
  EXPECT_EQ(turn(2.5), 4 * (2.0 + 3.0));
  EXPECT_GT(turn(3), 4 * (2.0 + 3.0));
}

TEST(OneForwardOneBackward, IsRefusedWhereABoundaryDelays) {
  EXPECT_THAT([] { pipeline_plan("1f1b", {{.delay = 1}}, 1); },
              ThrowsMessage<UserError>(
                  HasSubstr("boundary 1: order = '1f1b' goes without delays")));
}

}  // namespace sluice::one_f_one_b_test
