#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/drawing.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::schedules_test {

using testing::HasSubstr;

constexpr Traits kBackprop = {};
constexpr Traits kLocal = {.cut = true, .from_above = false};
constexpr Traits kDelayed = {.delay = 1};
constexpr Traits kReplay = {.delay = 1, .weights = {"current", true, true}};
constexpr Traits kFullyDecoupled = {.delay = 2, .order = Order::backward_first};

std::string schedule_of(const Traits& traits, int blocks, int block,
                        const Grant& grant) {
  const RunPlan plan = make_run_plan(
      std::vector<Traits>(static_cast<std::size_t>(blocks - 1), traits), false);
  std::string text;
  for (const Action& action : actions_of(by_block(plan.blocks, block), grant))
    text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

TEST(Action, IsReadBackFromItsText) {
  const std::vector<Action> actions = actions_from_text("F0  B12 U3 E4 C100");
  std::string text;
  for (const Action& action : actions) text += to_text(action) + " ";
  EXPECT_EQ(text, "F0 B12 U3 E4 C100 ");
}

TEST(Action, ActionOfAnUnknownKindIsNamed) {
  for (const char* text : {"F0 Q3", "F", "Fx", "F-1", "F1x"})
    EXPECT_THROW(actions_from_text(text), UserError) << text;
}

TEST(Schedule, ScheduleOfBackpropIsForwardBackwardUpdate) {
  EXPECT_EQ(schedule_of(kBackprop, 3, 1, {.end_turn = 2}), "F0 B0 U0 F1 B1 U1");
}

TEST(Schedule, ScheduleOfADelayAppliesTheBatchOfKMinusKTurnsAgo) {
  EXPECT_EQ(schedule_of(kDelayed, 3, 1, {.end_turn = 4}),
            "F0 F1 F2 B0 U0 F3 B1 U1");
}

TEST(Schedule, ScheduleOfOrderBUpdatesBeforeItForwards) {
  EXPECT_EQ(schedule_of(kFullyDecoupled, 2, 1, {.end_turn = 4}),
            "F0 F1 B0 U0 F2 B1 U1 F3");
}

TEST(Schedule, ScheduleOfOrderBForwardsFirstInTheLastBlock) {
  EXPECT_EQ(schedule_of(kFullyDecoupled, 2, 2, {.end_turn = 1}), "F0 B0 U0");
}

TEST(Schedule, ScheduleOfASynthesizerLearnsWhenItsTargetMayBeThere) {
  Traits synthetic{.cut = true, .lower = {.learns = true}};
  EXPECT_EQ(schedule_of(synthetic, 2, 1, {.end_turn = 2}),
            "F0 B0 U0 L0 F1 B1 U1 L1");
  synthetic.lower.target_delay = 1;
  EXPECT_EQ(schedule_of(synthetic, 2, 1, {.end_turn = 2, .drain = true}),
            "F0 B0 U0 F1 B1 U1 L0 L1");
}

TEST(Schedule, ScheduleOfASynthesizerBelowADelayWaitsForItsTarget) {
  const RunPlan plan = make_run_plan(
      {{.cut = true, .lower = {.learns = true}}, kDelayed}, false);
  EXPECT_EQ(plan.blocks[0].lower.learn_delay, 1);
  EXPECT_EQ(plan.blocks[0].delay, 0);
}

TEST(Schedule, DrainsSoThatEveryBatchIsApplied) {
  EXPECT_EQ(schedule_of(kDelayed, 3, 1, {.end_turn = 2, .drain = true}),
            "F0 F1 B0 U0 B1 U1");
}

TEST(Schedule, EvaluatesAndSavesAfterTheTurnsOfAGrant) {
  EXPECT_EQ(schedule_of(kLocal, 2, 1,
                        {.first_turn = 5,
                         .end_turn = 6,
                         .evaluation_batches = 2,
                         .checkpoint = true}),
            "F5 B5 U5 E0 E1 C6");
}

TEST(Schedule, ScheduleOfATurnInTwoPartsIsTheWholeTurn) {
  const auto parts_of = [](const Traits& traits) {
    Grant grant{.first_turn = 5, .end_turn = 6};
    const std::string whole = schedule_of(traits, 3, 2, grant);
    grant.part = TurnPart::play;
    const std::string play = schedule_of(traits, 3, 2, grant);
    grant.part = TurnPart::rest;
    return whole + " = " + play + " + " + schedule_of(traits, 3, 2, grant);
  };
  EXPECT_EQ(parts_of(kReplay), "F5 B4 U4 = F5 + B4 U4");
  EXPECT_EQ(parts_of(kFullyDecoupled), "B3 U3 F5 = B3 U3 F5 + ");
}

TEST(Plan, AddsDelaysUpToTheFirstCut) {
  const RunPlan plan =
      make_run_plan({kBackprop, kDelayed, kLocal, kDelayed}, false);
  std::vector<std::int64_t> delays;
  for (const BlockPlan& block : plan.blocks) delays.push_back(block.delay);
  EXPECT_EQ(delays, (std::vector<std::int64_t>{1, 1, 0, 1, 0}));
}

TEST(Plan, SendsTheRawInputAsFarUpAsItIsNeeded) {
  Traits needs_input = kLocal;
  needs_input.lower.attachments = {kRawInput};
  const RunPlan plan =
      make_run_plan({kLocal, needs_input, kBackprop, kLocal}, false);
  std::string kept;
  std::string sent;
  for (const BlockPlan& block : plan.blocks) {
    kept += block.lower.keeps.empty() ? '0' : '1';
    sent += block.lower.relays.empty() ? '0' : '1';
  }
  EXPECT_EQ(kept, "01000");
  EXPECT_EQ(sent, "10000");
}

TEST(Plan, RefusesToClipAModelThatIsCut) {
  EXPECT_THROW(make_run_plan({kBackprop, kLocal}, true), UserError);
}

/// Steady-state seconds per batch at K = 4, backward = 2 x forward.
double seconds_per_batch(const Traits& traits, double latency,
                         bool has_barrier = false) {
  RunPlan plan = make_run_plan({traits, traits, traits}, false);
  if (has_barrier) plan.barrier = barrier_around_iterations(plan);
  const Costs costs{.blocks = std::vector<BlockCosts>(
                        4, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}}),
                    .latency = latency};
  std::vector<Capacity> roomy(3, {100, 100});
  const auto end = [&](std::int64_t turns) {
    std::vector<std::vector<Action>> actions;
    for (const BlockPlan& block : plan.blocks)
      actions.push_back(actions_of(block, {.end_turn = turns}));
    double last = 0;
    for (const TimedAction& timed : simulate(plan, costs, roomy, actions))
      last = std::max(last, timed.end);
    return last;
  };
  return (end(220) - end(100)) / 120;
}

// Speed-ups over 12 s, the time of a batch under backprop in one block.
TEST(Simulation, GivesTheSteadySpeedUpsWithoutLatency) {
  EXPECT_NEAR(12 / seconds_per_batch(kBackprop, 0), 1, 1e-9);
  EXPECT_NEAR(12 / seconds_per_batch(kDelayed, 0), 4, 1e-9);
  EXPECT_NEAR(12 / seconds_per_batch(kReplay, 0), 3, 1e-9);
  EXPECT_NEAR(12 / seconds_per_batch(kFullyDecoupled, 0), 4, 1e-9);
  EXPECT_NEAR(12 / seconds_per_batch(kLocal, 0), 4, 1e-9);
}

TEST(Simulation, GivesTheSteadySpeedUpsWithTheLatencyOfAForward) {
  EXPECT_NEAR(12 / seconds_per_batch(kDelayed, 1), 8. / 3, 1e-9);
  EXPECT_NEAR(12 / seconds_per_batch(kReplay, 1), 2.25, 1e-9);
  EXPECT_NEAR(12 / seconds_per_batch(kFullyDecoupled, 1), 3, 1e-9);
  EXPECT_NEAR(12 / seconds_per_batch({.delay = 2}, 1), 4, 1e-9);
  EXPECT_NEAR(12 / seconds_per_batch(kLocal, 1), 4, 1e-9);
}

// Huo 2018a and 2018b report 2x and 1.7x at K = 4.
TEST(Simulation, GivesThePublishedSpeedUpsWithTheirBarriers) {
  EXPECT_NEAR(12 / seconds_per_batch(kDelayed, 0, true), 2, 1e-9);
  EXPECT_NEAR(12 / seconds_per_batch(kReplay, 0, true), 12. / 7, 1e-9);
}

TEST(Simulation, GivesBackpropNoBarrierThatItDoesNotHaveAnyway) {
  EXPECT_NEAR(12 / seconds_per_batch(kBackprop, 0, true), 1, 1e-9);
}

/// The times of the actions, "F0 0-1", of a block in three turns.
std::string times_of(const RunPlan& plan, int block) {
  std::vector<std::vector<Action>> actions;
  for (const BlockPlan& each : plan.blocks)
    actions.push_back(actions_of(each, {.end_turn = 3}));
  const Costs costs{.blocks = std::vector<BlockCosts>(
                        plan.blocks.size(),
                        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}})};
  std::string text;
  for (const TimedAction& timed :
       simulate(plan, costs, std::vector<Capacity>(1, {9, 9}), actions))
    if (timed.seat == block && timed.action.op != Op::update)
      text += fmt::format("{}{} {:g}-{:g}", text.empty() ? "" : ", ",
                          to_text(timed.action), timed.start, timed.end);
  return text;
}

TEST(Barrier, MakesABlockWaitUntilAllHaveDoneTheTurn) {
  RunPlan plan = make_run_plan({kLocal}, false);
  EXPECT_EQ(times_of(plan, 1),
            "F0 0-1, B0 1-3, F1 3-4, B1 4-6, F2 6-7, B2 7-9");
  plan.barrier = Barrier::turn;
  EXPECT_EQ(times_of(plan, 1),
            "F0 0-1, B0 1-3, F1 4-5, B1 5-7, F2 8-9, B2 9-11");
}

TEST(Barrier, BeforeAReplayComesAfterAllForwards) {
  RunPlan plan = make_run_plan({kReplay}, false);
  plan.barrier = barrier_around_iterations(plan);
  EXPECT_EQ(times_of(plan, 1), "F0 0-1, F1 4-5, B0 6-9, F2 9-10, B1 11-14");
  EXPECT_EQ(times_of(plan, 2),
            "F0 1-2, B0 2-4, F1 5-6, B1 6-8, F2 10-11, B2 11-13");
}

std::string refusal(const std::vector<Traits>& boundaries,
                    const std::vector<std::string>& lines) {
  const RunPlan plan = make_run_plan(boundaries, false);
  std::vector<std::vector<Action>> actions;
  for (const std::string& line : lines)
    actions.push_back(actions_from_text(line));
  try {
    simulate(plan, {}, std::vector<Capacity>(boundaries.size(), {1, 1}),
             actions);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Simulation, AcceptsWhatDoesNotWait) {
  EXPECT_EQ(refusal({kBackprop}, {"F0 B0 U0", "F0 B0 U0"}), "accepted");
}

TEST(Simulation, NamesTheCycleOfASchedule) {
  EXPECT_THAT(refusal({kBackprop}, {"F0 B0 F1", "F0 F1 B0"}),
              HasSubstr("block 1 (B0) waits for gradient 0 of block 2; block 2 "
                        "(F1) waits for activation 1 of block 1"));
}

TEST(Simulation, NamesAnActionThatComesBeforeWhatItNeeds) {
  EXPECT_THAT(refusal({kLocal}, {"B0 F0", "F0 B0"}),
              HasSubstr("block 1 (B0) lacks a forward of batch 0"));
  EXPECT_THAT(refusal({kLocal}, {"F0 U0 B0", "F0 B0"}),
              HasSubstr("block 1 (U0) lacks a backward of batch 0"));
  EXPECT_THAT(refusal({kLocal}, {"F0 B0 B0", "F0 B0"}),
              HasSubstr("block 1 (B0) lacks a forward of batch 0"));
}

TEST(Simulation, NamesAnInputThatNobodyWillSend) {
  EXPECT_THAT(
      refusal({kBackprop}, {"F0", "F0 F1"}),
      HasSubstr("waits for activation 1 of block 1; block 1 has nothing "
                "more to do"));
}

TEST(Simulation, NamesAnOrderThatTheChannelDoesNotHave) {
  EXPECT_THAT(refusal({kLocal}, {"F0 B0", "F1 B1"}),
              HasSubstr("wants activation 1 of block 1, but activation 0 comes "
                        "first"));
}

TEST(Simulation, NamesAChannelThatIsFull) {
  EXPECT_THAT(refusal({kDelayed}, {"F0 F1 F2 B0", "F0 B0"}),
              HasSubstr("until block 2 has taken one of 1 messages"));
}

/// Three turns of delay: block 1 is three batches ahead when it first takes a
/// gradient.
constexpr Traits kFarBehind = {.delay = 3};

/// In a run with an evaluation on the way, which finds gradients in flight.
bool waits_for_itself(const RunPlan& plan, Capacity capacity) {
  std::vector<std::vector<Action>> actions;
  for (const BlockPlan& block : plan.blocks) {
    actions.push_back(
        actions_of(block, {.end_turn = 6, .evaluation_batches = 2}));
    for (const Action& action :
         actions_of(block, {.first_turn = 6, .end_turn = 10, .drain = true}))
      actions.back().push_back(action);
  }
  try {
    simulate(plan, {}, {capacity}, actions);
  } catch (const UserError&) {
    return true;
  }
  return false;
}

TEST(Capacities, AreEnoughAndNoneIsTooMany) {
  const RunPlan plan = make_run_plan({kFarBehind}, false);
  const Capacity least = capacities_of(plan, 0).at(0);
  EXPECT_FALSE(waits_for_itself(plan, least));
  EXPECT_TRUE(waits_for_itself(plan, {1, 1}));
  EXPECT_TRUE(least.up == 1 ||
              waits_for_itself(plan, {least.up - 1, least.down}));
  EXPECT_TRUE(least.down == 1 ||
              waits_for_itself(plan, {least.up, least.down - 1}));
}

TEST(Capacities, HaveTheSlackOnTop) {
  const RunPlan plan = make_run_plan({kBackprop}, false);
  EXPECT_EQ(capacities_of(plan, 2).at(0), (Capacity{3, 3}));
}

TEST(Drawing, ShowsWhoIsBusyWhen) {
  const RunPlan plan = make_run_plan({kBackprop}, false);
  const std::vector<std::vector<Action>> actions(2,
                                                 actions_from_text("F0 B0 U0"));
  const auto timeline =
      simulate(plan,
               {.blocks = std::vector<BlockCosts>(
                    2, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}})},
               {{1, 1}}, actions);
  EXPECT_EQ(draw_timeline(timeline, {.depth = 2}, 1),
            "block 2  | .    F0   B0   - U0 .    .\n"
            "block 1  | F0   .    .    .    B0   - U0\n");
}

}  // namespace sluice::schedules_test
