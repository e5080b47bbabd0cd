// What blocks that run free choose, and when. X9 is a label of the
// specification (methods, section 11).
#include "lib/schedules/orders/free_running.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::free_running_test {

using testing::Each;
using testing::HasSubstr;
using testing::Le;

constexpr Traits kBackprop = {};
constexpr Traits kDelayed = {.delay = 1};
constexpr Traits kLocal = {.cut = true, .from_above = false, .own = true};
constexpr Traits kSynthetic = {
    .cut = true, .own = true, .lower = {.learns = true}};

Traits buffered(const ReplayOptions& options) {
  Traits traits = kLocal;
  traits.inbox.buffer = options;
  return traits;
}

Traits lossy(SlowConsumer policy) {
  Traits traits = kLocal;
  traits.inbox.slow_consumer = policy;
  return traits;
}

std::string text_of(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions)
    text += (text.empty() ? "" : " ") + to_text(action);
  return text;
}

/// A block that does the choices that the test names.
class Chooser {
 public:
  explicit Chooser(const BlockPlan& plan) : Chooser(std::vector{plan}) {}
  explicit Chooser(const std::vector<BlockPlan>& phases)
      : plan_(phases.front()), chooser_(phases) {}

  void give(const Grant& grant) { chooser_.give(grant); }
  /// What it had done before it begins.
  void set(Mark mark, std::int64_t batch) { ledger_.set(mark, batch); }
  void see(const MessageHead& first) { chooser_.see(first); }
  std::vector<Action> choices() const { return chooser_.choices(ledger_); }
  bool is_done() const { return chooser_.is_done(ledger_); }
  void note(const Action& action) {
    ledger_.did(plan_, action);
    chooser_.did(action);
  }

 private:
  BlockPlan plan_;
  Ledger ledger_;
  FreeRunning chooser_;
};

/// The lower of two blocks, after it has done some of its choices.
Chooser after(const Traits& boundary, const std::string& done,
              const Grant& grant, std::int64_t in_flight = 0) {
  Chooser block(make_free_plan({boundary}, 1, in_flight).blocks[0]);
  block.give(grant);
  for (const Action& action : actions_from_text(done)) block.note(action);
  return block;
}

TEST(FreeRunning, PrefersABackwardToAForward) {
  const Grant grant{.end_turn = 9};
  EXPECT_EQ(text_of(after(kDelayed, "", grant).choices()), "F0");
  EXPECT_EQ(text_of(after(kDelayed, "F0", grant).choices()), "B0 F1");
  EXPECT_EQ(text_of(after(kDelayed, "F0 F1 B0", grant).choices()), "U0");
}

TEST(FreeRunning, PrefersALessonToAForward) {
  const Grant grant{.end_turn = 9};
  EXPECT_EQ(text_of(after(kSynthetic, "F0 B0 U0", grant, 2).choices()),
            "L0 F1");
  EXPECT_EQ(text_of(after(kSynthetic, "F0 B0 U0 F1", grant, 2).choices()),
            "B1 L0");
}

TEST(FreeRunning, ForwardsNoMoreBatchesThanMayBeInFlight) {
  const Grant grant{.end_turn = 9};
  EXPECT_EQ(text_of(after(kDelayed, "F0 F1", grant).choices()), "B0");
  EXPECT_EQ(text_of(after(kDelayed, "F0 F1", grant, 3).choices()), "B0 F2");
  EXPECT_EQ(text_of(after(kLocal, "F0", grant, 3).choices()), "B0");
  EXPECT_EQ(text_of(after(kBackprop, "F0", grant, 3).choices()), "B0");
  EXPECT_EQ(text_of(after(kSynthetic, "F0 B0 U0", grant).choices()), "L0");
}

TEST(FreeRunning, ItsTurnIsTheNewestBatchThatItHasForwarded) {
  const Chooser block = after(kDelayed, "F0 F1", {.end_turn = 9});
  EXPECT_EQ(block.choices().at(0).turn, 1);
  EXPECT_EQ(block.choices().at(0).batch, 0);
}

TEST(FreeRunning, LeavesBatchesInFlightAtTheEndOfAGrant) {
  const Grant grant{.end_turn = 2, .evaluation_batches = 1, .checkpoint = true};
  EXPECT_EQ(text_of(after(kDelayed, "F0 F1", grant).choices()), "B0");
  EXPECT_EQ(text_of(after(kDelayed, "F0 F1 B0 U0", grant).choices()), "E0");
  EXPECT_EQ(text_of(after(kDelayed, "F0 F1 B0 U0 E0", grant).choices()), "C2");
  EXPECT_TRUE(after(kDelayed, "F0 F1 B0 U0 E0 C2", grant).is_done());
}

TEST(FreeRunning, AppliesThemInADrain) {
  const Grant grant{.end_turn = 2, .drain = true};
  EXPECT_EQ(text_of(after(kDelayed, "F0 F1 B0 U0", grant).choices()), "B1");
  EXPECT_TRUE(after(kDelayed, "F0 F1 B0 U0 B1 U1", grant).is_done());
}

TEST(FreeRunning, UpdatesWhenAWindowOfAccumulationIsFull) {
  Chooser block(make_free_plan({kLocal}, 2).blocks[0]);
  block.give({.end_turn = 3});
  for (const Action& action : actions_from_text("F0 B0")) block.note(action);
  EXPECT_EQ(text_of(block.choices()), "F1");
  for (const Action& action : actions_from_text("F1 B1")) block.note(action);
  EXPECT_EQ(text_of(block.choices()), "U1");
}

TEST(FreeRunning, BeginsWithTheTurnOfItsFirstGrant) {
  Chooser block(make_free_plan({kDelayed}).blocks[0]);
  block.set(Mark::in_flight, 6);
  EXPECT_TRUE(block.is_done());
  block.give({.first_turn = 7, .end_turn = 7});
  EXPECT_TRUE(block.is_done());
  block.give({.first_turn = 7, .end_turn = 9});
  EXPECT_EQ(text_of(block.choices()), "B6 F7");
  EXPECT_EQ(block.choices().at(0).turn, 6);
}

TEST(FreeRunning, BeginsWithItsEntryWhereItsReplicaJoins) {
  Chooser block(make_free_plan({kDelayed}).blocks[0]);
  block.give({.first_turn = 7, .end_turn = 9, .joins = true});
  for (const char* entry : {"X7.8", "S7.8"}) {
    ASSERT_EQ(text_of(block.choices()), entry);
    block.note(block.choices().front());
  }
  EXPECT_EQ(text_of(block.choices()), "F7");
}

// A batch that is dealt again has a lower number than one before it, and comes
// after it at each block.
TEST(FreeRunning, GoesBackwardInTheOrderInWhichItHasForwarded) {
  const RunPlan plan = with_replicas(make_free_plan({kDelayed}, 1, 3), 2,
                                     {.what = ExchangedTensors::weights,
                                      .every = 9,
                                      .agrees = true,
                                      .served = true},
                                     false, Dealing::arrival);
  Chooser block(plan.blocks[0]);
  block.set(Mark::in_flight, 1);
  block.give({.first_turn = 4, .end_turn = 8, .checkpoint = true});
  block.note({Op::forward, 9});
  block.note({Op::forward, 3});
  EXPECT_EQ(text_of(block.choices()), "B1") << "which a checkpoint had";
  block.note({Op::backward, 1});
  block.note({Op::update, 1});
  EXPECT_EQ(text_of(block.choices()), "B9 F4");
}

TEST(FreeRunning, CountsWhatItsWindowHeldBeforeItBegan) {
  Chooser block(make_free_plan({kLocal}, 3).blocks[0]);
  for (const std::int64_t batch : {3, 4}) block.set(Mark::summed, batch);
  block.give({.first_turn = 5, .end_turn = 9});
  for (const Action& action : actions_from_text("F5 B5")) block.note(action);
  EXPECT_EQ(text_of(block.choices()), "U5");
}

TEST(FreeRunning, GoesBackwardBeforeAGrantEndsWhereItWaitsForNobody) {
  const Grant grant{.end_turn = 1, .checkpoint = true};
  EXPECT_EQ(text_of(after(kSynthetic, "F0", grant, 3).choices()), "B0");
  EXPECT_EQ(text_of(after(kSynthetic, "F0 B0 U0", grant, 3).choices()), "C1");
}

TEST(FreeRunning, LearnsAtOnceFromAGradientThatItHasApplied) {
  const Traits both{.delay = 1, .own = true, .lower = {.learns = true}};
  EXPECT_EQ(text_of(after(both, "F0 F1 B0 U0", {.end_turn = 9}, 3).choices()),
            "L0 B1 F2");
}

/// A block in a phase with a delay, and then in one without.
Chooser of_two_phases(std::int64_t accumulate) {
  return Chooser({make_free_plan({kDelayed}, accumulate, 3).blocks[0],
                  make_free_plan({kLocal}, accumulate, 3).blocks[0]});
}

TEST(FreeRunning, TakesThePlanOfAPhaseWhenItsPipeIsDrained) {
  Chooser block = of_two_phases(1);
  block.give({.end_turn = 2, .drain = true});
  for (const Action& action : actions_from_text("F0 F1 B0 U0"))
    block.note(action);
  EXPECT_EQ(text_of(block.choices()), "B1");
  for (const Action& action : actions_from_text("B1 U1")) block.note(action);
  ASSERT_TRUE(block.is_done());
  block.give({.first_turn = 2, .end_turn = 9, .phase = 1, .first_batch = 2});
  EXPECT_EQ(text_of(block.choices()), "F2");
  EXPECT_EQ(block.choices().at(0).phase, 1);
  for (const Action& action : actions_from_text("F2")) block.note(action);
  EXPECT_EQ(text_of(block.choices()), "B2") << "of a cut no batch waits";
}

TEST(FreeRunning, BeginsANewWindowInAPhase) {
  Chooser block = of_two_phases(2);
  block.give({.end_turn = 1, .drain = true});
  for (const Action& action : actions_from_text("F0 B0")) block.note(action);
  ASSERT_TRUE(block.is_done());
  block.give({.first_turn = 1, .end_turn = 9, .phase = 1, .first_batch = 1});
  for (const Action& action : actions_from_text("F1 B1")) block.note(action);
  EXPECT_EQ(text_of(block.choices()), "F2");
  for (const Action& action : actions_from_text("F2 B2")) block.note(action);
  EXPECT_EQ(text_of(block.choices()), "U2");
}

/// The upper of two blocks below which activations may be dropped.
Chooser with_gaps(const std::string& done, const Grant& grant) {
  Chooser block(make_free_plan({lossy(SlowConsumer::latest)}).blocks[1]);
  block.give(grant);
  for (const Action& action : actions_from_text(done)) block.note(action);
  return block;
}

TEST(FreeRunning, ForwardsTheBatchesThatComeWhereSomeAreDropped) {
  Chooser block = with_gaps("F0 B0 U0", {.end_turn = 9});
  block.see({MessageKind::activation, 4});
  EXPECT_EQ(text_of(block.choices()), "F4");
  EXPECT_EQ(block.choices().at(0).turn, 4);
}

TEST(FreeRunning, HasDoneItsTurnsWhenWhatComesNextFollowsThem) {
  const Grant grant{.end_turn = 9, .evaluation_batches = 1};
  Chooser block = with_gaps("F0 B0 U0", grant);
  EXPECT_EQ(text_of(block.choices()), "F1");
  block.see({MessageKind::evaluation, 0});
  EXPECT_EQ(text_of(block.choices()), "E0");
  Chooser other = with_gaps("F0 B0 U0", grant);
  other.see({MessageKind::activation, 9});
  EXPECT_EQ(text_of(other.choices()), "E0");
}

TEST(FreeRunning, SkipsNothingWhereNothingIsDropped) {
  Chooser block(make_free_plan({kLocal}).blocks[1]);
  block.give({.end_turn = 9});
  block.see({MessageKind::activation, 4});
  EXPECT_EQ(text_of(block.choices()), "F0");
}

Costs costs_with(std::vector<double> slowness, double latency = 0,
                 double jitter = 0) {
  Costs costs{.latency = latency, .jitter = jitter, .seed = 3};
  for (const double slow : slowness)
    costs.blocks.push_back(
        {.seconds = {{Op::forward, 1}, {Op::backward, 2}}, .slowness = slow});
  return costs;
}

using Timeline = std::vector<TimedAction>;

Timeline timeline_of(const std::vector<Traits>& boundaries, const Costs& costs,
                     std::int64_t in_flight = 0, std::int64_t turns = 12) {
  const RunPlan plan = make_free_plan(boundaries, 1, in_flight);
  return simulate(plan, costs, capacities_of(plan, 0),
                  {.end_turn = turns, .drain = true, .evaluation_batches = 2});
}

std::vector<Action> done_by(int block, const Timeline& timeline) {
  std::vector<Action> actions;
  for (const TimedAction& timed : timeline)
    if (timed.seat == block) actions.push_back(timed.action);
  return actions;
}

std::vector<std::int64_t> staleness_of(int block, const Timeline& timeline) {
  std::vector<std::int64_t> found;
  for (const Action& action : done_by(block, timeline))
    if (action.op == Op::backward) found.push_back(action.turn - action.batch);
  return found;
}

std::string lockstep(const std::vector<Traits>& boundaries, int block) {
  const RunPlan plan = make_run_plan(boundaries, false);
  return text_of(
      actions_of(by_block(plan.blocks, block),
                 {.end_turn = 12, .drain = true, .evaluation_batches = 2}));
}

TEST(FreeSchedule, FreeScheduleOfCutsIsThatOfLockstepWhateverTheCosts) {
  for (const Costs& costs :
       {Costs{}, costs_with({1, 1, 1}), costs_with({5, 1, 3}, 0.7, 0.5)}) {
    const Timeline timeline = timeline_of({kLocal, kLocal}, costs);
    for (int block = 1; block <= 3; ++block)
      EXPECT_EQ(text_of(done_by(block, timeline)),
                lockstep({kLocal, kLocal}, block));
  }
}

TEST(FreeSchedule, FreeScheduleOfADelayIsThatOfLockstepWhenNothingTakesTime) {
  const Timeline timeline = timeline_of({kDelayed, kDelayed}, {});
  for (int block = 1; block <= 3; ++block)
    EXPECT_EQ(text_of(done_by(block, timeline)),
              lockstep({kDelayed, kDelayed}, block));
}

TEST(FreeSchedule, FreeScheduleOfADelayDependsOnTheCosts) {
  // Block 1 is the slower one: gradients wait for it, not it for them.
  const auto slow_below =
      staleness_of(1, timeline_of({kDelayed}, costs_with({10, 1}), 4));
  EXPECT_EQ(slow_below,
            (std::vector<std::int64_t>{1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}));
  const auto slow_above =
      staleness_of(1, timeline_of({kDelayed}, costs_with({1, 10}), 4));
  EXPECT_EQ(slow_above,
            (std::vector<std::int64_t>{3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 1, 0}));
}

TEST(FreeSchedule, NeverHasMoreBatchesInFlightThanAllowed) {
  for (const std::int64_t in_flight : {1, 2, 5})
    for (const Costs& costs : {costs_with({1, 9, 1}), costs_with({1, 1, 9}),
                               costs_with({2, 1, 3}, 4, 0.9)}) {
      const Timeline timeline =
          timeline_of({kDelayed, kDelayed}, costs, in_flight, 40);
      for (int block = 1; block <= 3; ++block)
        EXPECT_THAT(staleness_of(block, timeline), Each(Le(in_flight - 1)));
    }
}

TEST(FreeSchedule, X9_AppliesEveryBatchOnce) {
  const Timeline timeline = timeline_of({kDelayed, kSynthetic, kBackprop},
                                        costs_with({1, 3, 2, 1}, 2, 0.8), 3);
  for (int block = 1; block <= 4; ++block) {
    std::int64_t next = 0;
    for (const Action& action : done_by(block, timeline))
      if (action.op == Op::update) {
        EXPECT_EQ(action.batch, next++);
      }
    EXPECT_EQ(next, 12) << "block " << block;
  }
}

double end_of(int block, Op op, const Timeline& timeline) {
  double end = 0;
  for (const TimedAction& timed : timeline)
    if (timed.seat == block && timed.action.op == op)
      end = std::max(end, timed.end);
  return end;
}

// Forwards of block 1 end at 10, 40, 70: block 2 takes its 12 turns of 3 s
// from 10 on, and after ten of them sees a second batch.
TEST(FreeSchedule, BehindABufferABlockReusesAndDoesNotWait) {
  const Timeline timeline =
      timeline_of({buffered({.batches = 2})}, costs_with({10, 1}));
  EXPECT_EQ(end_of(2, Op::update, timeline), 10 + 12 * 3);
  EXPECT_THAT(text_of(done_by(2, timeline)),
              HasSubstr("F9<1 B9 U9 F10<2 B10 U10 F11<2"));
}

TEST(FreeSchedule, BelowABufferABlockDoesNotWaitEither) {
  const Timeline timeline =
      timeline_of({buffered({.batches = 2})}, costs_with({1, 10}));
  EXPECT_EQ(end_of(1, Op::update, timeline), 12 * 3);
  // The forward of turn 1 is at 1 + 30, when 11 batches have arrived.
  EXPECT_THAT(text_of(done_by(2, timeline)), HasSubstr("F0<1 B0 U0 F1<11"));
}

TEST(FreeSchedule, BehindABufferWithoutReuseABlockWaits) {
  const Timeline timeline = timeline_of(
      {buffered({.batches = 2, .max_reuse = 0})}, costs_with({10, 1}));
  EXPECT_EQ(end_of(2, Op::update, timeline), 10 + 11 * 30 + 3);
}

TEST(FreeSchedule, BehindABufferABlockDoesNotRunOutOfInputs) {
  for (const std::int64_t max_reuse : {-1, 0, 2})
    for (const std::int64_t batches : {1, 3}) {
      const Traits boundary =
          buffered({.batches = batches, .max_reuse = max_reuse});
      for (const std::vector<double>& slowness :
           {std::vector<double>{1, 5, 1}, {5, 1, 1}, {1, 2, 7}})
        EXPECT_EQ(done_by(3, timeline_of({boundary, boundary},
                                         costs_with(slowness, 0.3, 0.9), 0, 30))
                      .size(),
                  30U * 3 + 2);
    }
}

// Block 1 forwards at 0, 3, 6 ...; block 2 takes batch 0 at 1, 1 at 31, and
// what has reached the channel then at 61.
TEST(FreeSchedule, FreeScheduleOfLatestForwardsTheNewestThatCould) {
  const Timeline timeline =
      timeline_of({lossy(SlowConsumer::latest)}, costs_with({1, 10}));
  EXPECT_EQ(end_of(1, Op::update, timeline), 12 * 3);
  EXPECT_THAT(text_of(done_by(1, timeline)),
              HasSubstr("F2 B2 U2 F3-2 B3 U3 F4-3"));
  EXPECT_EQ(text_of(done_by(2, timeline)),
            "F0 B0 U0 F1 B1 U1 F10 B10 U10 F11 B11 U11 E0 E1");
}

TEST(FreeSchedule, FreeScheduleOfASlowConsumerThatBlocksDropsNothing) {
  const Timeline timeline = timeline_of({kLocal}, costs_with({1, 10}));
  EXPECT_GT(end_of(1, Op::update, timeline), 12 * 3);
  EXPECT_EQ(text_of(done_by(2, timeline)), lockstep({kLocal}, 2));
}

TEST(FreeSchedule, FreeScheduleOfAFastConsumerDropsNothing) {
  const Timeline timeline =
      timeline_of({lossy(SlowConsumer::latest)}, costs_with({1, 1}));
  EXPECT_EQ(text_of(done_by(2, timeline)), lockstep({kLocal}, 2));
}

TEST(FreeSchedule, DropOldestDropsFewerThanLatest) {
  const auto forwards = [](SlowConsumer policy) {
    return done_by(2, timeline_of({lossy(policy)}, costs_with({1, 4}))).size();
  };
  EXPECT_GT(forwards(SlowConsumer::drop_oldest),
            forwards(SlowConsumer::latest));
}

TEST(FreeSchedule, BlocksAboveADropForwardTheSameBatches) {
  const Timeline timeline = timeline_of({lossy(SlowConsumer::latest), kDelayed},
                                        costs_with({1, 10, 2}), 3);
  const auto batches = [&](int block, Op op) {
    std::vector<std::int64_t> found;
    for (const Action& action : done_by(block, timeline))
      if (action.op == op) found.push_back(action.batch);
    return found;
  };
  EXPECT_LT(batches(2, Op::forward).size(), 12U);
  EXPECT_EQ(batches(3, Op::forward), batches(2, Op::forward));
  EXPECT_EQ(batches(2, Op::update), batches(2, Op::forward));
}

/// What a simulation makes of all these actions, without costs.
std::vector<std::string> retold(const std::vector<Traits>& boundaries,
                                const Timeline& timeline) {
  const RunPlan plan = make_free_plan(boundaries);
  std::vector<std::vector<Action>> actions;
  for (int block = 1; block <= std::ssize(plan.blocks); ++block)
    actions.push_back(actions_from_text(text_of(done_by(block, timeline))));
  const Timeline again = simulate(plan, {}, capacities_of(plan, 0), actions);
  std::vector<std::string> lines;
  for (int block = 1; block <= std::ssize(plan.blocks); ++block)
    lines.push_back(text_of(done_by(block, again)));
  return lines;
}

TEST(FreeSchedule, IsRepeatedFromItsRecordWithoutCosts) {
  for (const std::vector<Traits>& boundaries :
       {std::vector<Traits>{kDelayed, kDelayed},
        {buffered({.batches = 2}), buffered({.batches = 2, .max_reuse = 1})},
        {lossy(SlowConsumer::latest), kDelayed},
        {lossy(SlowConsumer::drop_oldest), buffered({.batches = 2})}}) {
    const Timeline timeline = timeline_of(boundaries, costs_with({1, 5, 2}));
    EXPECT_EQ(retold(boundaries, timeline),
              (std::vector<std::string>{text_of(done_by(1, timeline)),
                                        text_of(done_by(2, timeline)),
                                        text_of(done_by(3, timeline))}));
  }
}

TEST(FreeSchedule, NeverGoesBackInTime) {
  const Traits boundary = buffered({.batches = 2, .max_reuse = 2});
  for (const std::vector<double>& slowness :
       {std::vector<double>{1, 5, 1}, {5, 1, 1}, {1, 2, 7}}) {
    double now = 0;
    for (const TimedAction& timed : timeline_of(
             {boundary, boundary}, costs_with(slowness, 0.3, 0.9), 0, 30)) {
      EXPECT_GE(timed.start, now) << to_text(timed.action);
      now = timed.start;
    }
  }
}

TEST(FreeSchedule, TakesTurnsWhenNothingTakesTime) {
  const Timeline timeline =
      timeline_of({buffered({.batches = 2}), buffered({.batches = 2})}, {});
  for (int block = 2; block <= 3; ++block)
    EXPECT_THAT(text_of(done_by(block, timeline)),
                HasSubstr("F0<1 B0 U0 F1<2 B1 U1 F2<3"));
}

std::string refusal(const Traits& boundary, bool free) {
  try {
    if (free)
      make_free_plan({boundary});
    else
      make_run_plan({boundary}, false);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(FreeSchedule, RefusesABufferWhereGradientsComeDown) {
  EXPECT_EQ(refusal(buffered({}), true), "accepted");
  EXPECT_THAT(refusal(buffered({}), false), HasSubstr("schedule = 'free'"));
  Traits synthetic = kSynthetic;
  synthetic.inbox.buffer.emplace();
  EXPECT_THAT(refusal(synthetic, true), HasSubstr("nothing comes down"));
}

TEST(FreeSchedule, DropsOnlyWhereNothingComesDown) {
  const Traits latest = lossy(SlowConsumer::latest);
  EXPECT_EQ(refusal(latest, true), "accepted");
  EXPECT_THAT(refusal(latest, false), HasSubstr("schedule = 'free'"));
  Traits synthetic = kSynthetic;
  synthetic.inbox.slow_consumer = SlowConsumer::latest;
  EXPECT_THAT(refusal(synthetic, true), HasSubstr("nothing comes down"));
}

TEST(FreeSchedule, DropsNothingBelowABufferThatCouldRunOut) {
  Traits once = buffered({.max_reuse = 0});
  once.inbox.slow_consumer = SlowConsumer::latest;
  EXPECT_THAT(refusal(once, true), HasSubstr("could run out"));
  Traits any = buffered({});
  any.inbox.slow_consumer = SlowConsumer::latest;
  EXPECT_EQ(refusal(any, true), "accepted");
}

TEST(Action, ActionOfAPhaseIsReadBackFromItsText) {
  const std::vector<Action> actions = actions_from_text("F0 B0 P1 F1 P3 F2");
  EXPECT_EQ(actions.at(1).phase, 0);
  EXPECT_EQ(actions.at(2).phase, 1);
  EXPECT_EQ(actions.at(3).phase, 3);
  EXPECT_EQ(to_text(actions), "F0 B0 P1 F1 P3 F2");
  for (const char* text : {"P", "Px", "P-1", "P1x", "P1<2"})
    EXPECT_THROW(actions_from_text(text), UserError) << text;
}

TEST(Action, ThatDropsOthersIsReadBackFromItsText) {
  const std::vector<Action> actions = actions_from_text("F5-3-4 F6<7-5 B5");
  EXPECT_EQ(actions.at(0).dropped, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(actions.at(1).arrived, 7);
  EXPECT_EQ(actions.at(1).dropped, std::vector<std::int64_t>{5});
  EXPECT_EQ(text_of(actions), "F5-3-4 F6<7-5 B5");
  const std::vector<Action> late = actions_from_text("S5<17 S5.5<19-6-7");
  EXPECT_EQ(late.at(1).arrived, 19);
  EXPECT_EQ(late.at(1).dropped, (std::vector<std::int64_t>{6, 7}));
  EXPECT_EQ(text_of(late), "S5<17 S5.5<19-6-7");
  for (const char* text : {"B5-3", "F5-", "F5--3", "F5-3<7", "F5-x", "F-3"})
    EXPECT_THROW(actions_from_text(text), UserError) << text;
}

TEST(Action, FromABufferIsReadBackFromItsText) {
  const std::vector<Action> actions = actions_from_text("F5<7 B5");
  EXPECT_EQ(actions.at(0).arrived, 7);
  EXPECT_EQ(text_of(actions), "F5<7 B5");
  for (const char* text : {"B5<7", "F5<", "F5<0", "F5<x", "F5<7<8", "F<7"})
    EXPECT_THROW(actions_from_text(text), UserError) << text;
}

}  // namespace sluice::free_running_test
