// `sluice what-if`: what a recorded run would have been.
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/planner/recorded_run.h"
#include "experiments/planner/recut.h"
#include "lib/base/error.h"
#include "lib/metrics/simulated_trace.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/speed.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::planner::planner_what_if_test {

constexpr Traits kLocal = {.cut = true, .from_above = false};
constexpr Traits kDelayed = {.delay = 1};
constexpr Traits kReplay = {.delay = 1, .weights = {"current", true, true}};
constexpr Traits kBackprop = {};

class RecordedRunTest : public Program {
 protected:
  /// What is read of the trace of a simulated run.
  RecordedRun recorded(const RunPlan& plan, const Costs& costs,
                       std::int64_t turns = 60) {
    const std::string file = path("trace.json");
    {
      std::ofstream out(file);
      SimulatedTrace trace(out, {plan});
      for (const TimedAction& timed : simulate(
               plan, costs, capacities_of(plan, 2), Grant{.end_turn = turns}))
        trace.write(timed);
    }
    return recorded_run(read_trace(file, 1 << 30), plan, file, false);
  }
};

TEST_F(RecordedRunTest, RunOfASimulatedTraceIsPredictedAsItWas) {
  for (const Traits& traits : {kBackprop, kLocal, kDelayed, kReplay}) {
    const RunPlan plan = make_run_plan({traits, traits}, false);
    const Costs costs{
        .blocks = {{.seconds = {{Op::forward, 1},
                                {Op::backward, 2},
                                {Op::update, 0.1}}},
                   {.seconds = {{Op::forward, 1.5}, {Op::backward, 2.5}}},
                   {.seconds = {{Op::forward, 0.5}, {Op::backward, 1}}}},
        .latency = 0.25};
    const RecordedRun run = recorded(plan, costs);
    EXPECT_NEAR(run.blocks[0].seconds[Op::update], 0.1, 1e-6);
    EXPECT_NEAR(run.blocks[1].seconds[Op::forward], 1.5, 1e-6);
    const Costs again{.blocks = run.blocks, .latency = 0.25};
    const Speed speed = steady_speed(plan, again, capacities_of(plan, 2));
    EXPECT_NEAR(speed.seconds_per_turn, run.seconds_per_turn, 1e-3);
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(speed.utilisation[k], run.utilisation[k], 0.01);
  }
}

TEST_F(RecordedRunTest, WithJitterIsPredictedWithTheSameJitter) {
  const RunPlan plan = make_run_plan({kDelayed, kDelayed}, false);
  const Costs costs{.blocks = std::vector<BlockCosts>(
                        3, {.seconds = {{Op::forward, 1}, {Op::backward, 2}}}),
                    .jitter = 0.2};
  const RecordedRun run = recorded(plan, costs, 100);
  const auto capacities = capacities_of(plan, 2);
  const Speed speed = steady_speed(
      plan, {.blocks = run.blocks, .variation = run.variation}, capacities);
  EXPECT_NEAR(speed.seconds_per_turn / run.seconds_per_turn, 1, 0.02);
  // Means alone would be too fast: blocks wait for the slower one of a turn.
  EXPECT_LT(
      steady_speed(plan, {.blocks = run.blocks}, capacities).seconds_per_turn,
      0.96 * run.seconds_per_turn);
}

TEST_F(RecordedRunTest, RunOfTooFewTurnsIsRefused) {
  const RunPlan plan = make_run_plan({kLocal}, false);
  EXPECT_THROW(recorded(plan,
                        {.blocks = {{.seconds = {{Op::forward, 1}}},
                                    {.seconds = {{Op::forward, 1}}}}},
                        4),
               UserError);
}

TEST(RecordedRun, LeavesOutWhatActionsWaited) {
  TraceFile trace;
  for (int turn = 0; turn < 40; ++turn) {
    const double start = 10. * turn;
    trace.actions.push_back({.block = 1,
                             .category = "forward",
                             .start = start,
                             .end = start + 3,
                             .turn = turn});
    trace.actions.push_back({.block = 2,
                             .category = "forward",
                             .start = start,
                             .end = start + 6,
                             .turn = turn});
    trace.actions.push_back({.block = 2,
                             .category = "wait",
                             .start = start,
                             .end = start + 4,
                             .turn = turn});
    // Sent when block 1 had computed; a second under way.
    trace.messages.push_back(
        {.from = 1, .to = 2, .sent = start + 3, .taken = start + 4});
  }
  const RecordedRun run =
      recorded_run(trace, make_run_plan({kLocal}, false), "trace", false);
  EXPECT_NEAR(run.blocks[0].seconds[Op::forward], 3, 1e-9);
  EXPECT_NEAR(run.blocks[1].seconds[Op::forward], 2, 1e-9);
  EXPECT_NEAR(run.seconds_per_turn, 10, 1e-9);
  EXPECT_NEAR(run.latency.at(0), 1, 1e-9);
}

TEST(RecordedRun, CountsWhatSendingTakesWhileTheOtherBlockWaitsForIt) {
  TraceFile trace;
  const auto add = [&](int turn, int block, const char* name, double start,
                       double end) {
    const bool is_wait = std::string(name).starts_with("wait");
    trace.actions.push_back({.block = block,
                             .name = name,
                             .category = is_wait ? "wait" : "forward",
                             .start = 10. * turn + start,
                             .end = 10. * turn + end,
                             .turn = turn});
  };
  for (int turn = 0; turn < 40; ++turn) {
    add(turn, 1, "F", 0, 5);
    add(turn, 1, "wait for room towards block 2", 3, 5);
    add(turn, 2, "F", 0, 6);
    // In every second turn block 2 has something to do: no room.
    if (turn % 2 == 0) add(turn, 2, "wait for activation 1 of block 1", 0, 4);
  }
  const RecordedRun run =
      recorded_run(trace, make_run_plan({kLocal}, false), "trace", false);
  EXPECT_NEAR(run.blocks[0].seconds[Op::forward], 4, 0.1);
}

TEST(RecordedRun, CountsWhatPassesBetweenActionsWhereNobodyIsWaitedForThen) {
  TraceFile trace;
  for (int turn = 0; turn < 40; ++turn)
    trace.actions.push_back({.block = 1,
                             .category = "forward",
                             .start = 10. * turn + 3,
                             .end = 10. * turn + 8,
                             .turn = turn});
  const RunPlan plan = make_run_plan({}, false);
  EXPECT_NEAR(
      recorded_run(trace, plan, "trace", false).blocks[0].seconds[Op::forward],
      5, 1e-9);
  EXPECT_NEAR(
      recorded_run(trace, plan, "trace", true).blocks[0].seconds[Op::forward],
      10, 1e-9);
}

TEST(RecordedRun, KnowsThatAMessageIsThereBeforeItsSenderGoesOn) {
  TraceFile trace;
  for (int turn = 0; turn < 40; ++turn) {
    const double start = 10. * turn;
    const auto add = [&](int block, const char* category, double from,
                         double to) {
      trace.actions.push_back({.block = block,
                               .category = category,
                               .start = start + from,
                               .end = start + to,
                               .turn = turn});
    };
    add(1, "forward", 0, 5);
    add(2, "forward", 0, 9);
    add(2, "wait", 0, 4);
    trace.messages.push_back(
        {.from = 1, .to = 2, .sent = start + 3, .taken = start + 4});
  }
  const RecordedRun run =
      recorded_run(trace, make_run_plan({kBackprop}, false), "trace", false);
  EXPECT_NEAR(run.latency.at(0), -1, 1e-9);
}

/// Experiment with this model in other blocks.
Experiment cut(const std::string& blocks, const std::string& policy) {
  return read_experiment(parse_toml("blocks = " + blocks +
                                        "\ndata = {train = 64, test = 16}\n"
                                        "model = {hidden = [16, 16, 16, 16]}\n"
                                        "boundary = {policy = '" +
                                        policy + "'}\n",
                                    "config"),
                         "");
}

double sum_of(const std::vector<BlockCosts>& costs, Op op) {
  double sum = 0;
  for (const BlockCosts& block : costs) sum += block.seconds[op];
  return sum;
}

TEST(RecutCosts, CostsOfAnUnchangedCutStayTheSame) {
  const Experiment same = cut("['0-2', '3-']", "backprop");
  const std::vector<BlockCosts> costs = {
      {.seconds = {{Op::forward, 1}, {Op::backward, 2}, {Op::update, 0.5}}},
      {.seconds = {{Op::forward, 2}, {Op::backward, 5}, {Op::update, 0.25}}}};
  const auto again = recut_costs(costs, same, same);
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_NEAR(again[k].seconds[Op::forward], costs[k].seconds[Op::forward],
                1e-9);
    EXPECT_NEAR(again[k].seconds[Op::backward], costs[k].seconds[Op::backward],
                1e-9);
    EXPECT_NEAR(again[k].seconds[Op::update], costs[k].seconds[Op::update],
                1e-9);
  }
}

TEST(RecutCosts, CostsOfAnotherCutAddUpToTheSame) {
  const std::vector<BlockCosts> costs = {
      {.seconds = {{Op::forward, 1}, {Op::backward, 2}, {Op::update, 0.5}}},
      {.seconds = {{Op::forward, 2}, {Op::backward, 5}, {Op::update, 0.25}}}};
  const auto four =
      recut_costs(costs, cut("2", "backprop"), cut("4", "backprop"));
  ASSERT_EQ(four.size(), 4U);
  EXPECT_NEAR(sum_of(four, Op::forward), 3, 1e-9);
  EXPECT_NEAR(sum_of(four, Op::backward), 7, 1e-9);
  EXPECT_NEAR(sum_of(four, Op::update), 0.75, 1e-9);
  const auto one =
      recut_costs(costs, cut("2", "backprop"), cut("1", "backprop"));
  EXPECT_NEAR(one.at(0).seconds[Op::backward], 7, 1e-9);
}

TEST(RecutCosts, GiveEachNewBoundaryItsHead) {
  // The last block's backward takes two forwards; what the first one's takes
  // more is its head.
  const std::vector<BlockCosts> costs = {
      {.seconds = {{Op::forward, 1}, {Op::backward, 2.5}}},
      {.seconds = {{Op::forward, 1}, {Op::backward, 2}}}};
  const auto three =
      recut_costs(costs, cut("2", "local_loss"), cut("3", "local_loss"));
  EXPECT_NEAR(three[0].head, 0.5, 1e-9);
  EXPECT_NEAR(three[1].head, 0.5, 1e-9);
  EXPECT_NEAR(three[2].head, 0, 1e-9);
  EXPECT_NEAR(sum_of(three, Op::backward), 4, 1e-9);
}

TEST(CutAnew, RefusesBoundariesThatDifferWhereTheirNumberChanges) {
  const ConfigNode config = parse_toml(
      "blocks = ['0', '1', '2-']\n[boundary.1]\npolicy = 'backprop'\n"
      "[boundary.2]\npolicy = 'local_loss'\n",
      "config");
  EXPECT_THROW(cut_anew(config, "4"), UserError);
  EXPECT_EQ(cut_anew(config, "0-1,2,3-").find("blocks")->literal(),
            "[\"0-1\", \"2\", \"3-\"]");
}

TEST(RecutVariation, IsThatOfTheBlockWithTheFirstLayer) {
  std::vector<Variation> variation(2);
  variation[0][Op::forward] = {0.5, 1.5};
  variation[1][Op::forward] = {0.9, 1.1};
  const auto three =
      recut_variation(variation, cut("['0-2', '3-']", "backprop"),
                      cut("['0', '1-2', '3-']", "backprop"));
  ASSERT_EQ(three.size(), 3U);
  EXPECT_EQ(three[1][Op::forward], variation[0][Op::forward]);
  EXPECT_EQ(three[2][Op::forward], variation[1][Op::forward]);
}

class WhatIf : public Program {
 protected:
  void train(const std::string& arguments) {
    const std::string config =
        write("config.toml", config_with("blocks = 2\nboundary = {policy = "
                                         "'local_loss'}\n"));
    const Outcome outcome =
        sluice("run " + config + " turns=40 evaluate_every=0 --dir " +
               path("run") + " " + arguments);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
  }
};

constexpr auto kClock =
    "engine=virtual virtual.forward=0.01 virtual.backward=0.02 ";

TEST_F(WhatIf, PredictsARunOfTheVirtualClockAsItWas) {
  train(kClock);
  const Outcome outcome = sluice("what-if " + path("run"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("measured                    30.00 ms"),
            std::string::npos)
      << outcome.text;
  EXPECT_NE(outcome.text.find("0.0 % off"), std::string::npos) << outcome.text;
}

TEST_F(WhatIf, PredictsASlowLinkAndASlowBlock) {
  train(kClock);
  const Outcome slow = sluice("what-if " + path("run") + " --slow 2x1.5");
  EXPECT_NE(slow.text.find("45.00 ms"), std::string::npos) << slow.text;
  const Outcome machine =
      sluice("what-if " + path("run") + " --machine " +
             write("machine.toml", "[[device]]\ncores = 1\nspeed = 2\n"));
  // Both blocks one after the other, at twice the speed.
  EXPECT_NE(machine.text.find("30.00 ms"), std::string::npos) << machine.text;
  EXPECT_NE(machine.text.find("1.00 x as fast"), std::string::npos)
      << machine.text;
}

TEST_F(WhatIf, TakesReplicasToBeAlike) {
  train(std::string(kClock) + "replicas.count=2");
  const Outcome slow = sluice("what-if " + path("run") + " --slow 2x1.5");
  EXPECT_EQ(slow.status, 0) << slow.text;
  for (const char* said :
       {"in 2 blocks, 2 replicas", "30.00 ms", "45.00 ms", "0.67 x as fast"})
    EXPECT_NE(slow.text.find(said), std::string::npos) << slow.text;
  EXPECT_EQ(slow.text.find("\n    3 "), std::string::npos) << slow.text;
  const Outcome cut = sluice("what-if " + path("run") + " --blocks 3");
  EXPECT_EQ(cut.status, 0) << cut.text;
  const Outcome machine =
      sluice("what-if " + path("run") + " --machine " +
             write("machine.toml", "[[device]]\ncores = 4\nspeed = 2\n"));
  EXPECT_NE(machine.text.find("2.00 x as fast"), std::string::npos)
      << machine.text;
}

TEST_F(WhatIf, ReadsTheTraceOfThreads) {
  train("engine=threads");
  const Outcome outcome =
      sluice("what-if " + path("run") + " --blocks 3 --latency 1e-3");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("predicted, changed"), std::string::npos);
}

TEST_F(WhatIf, WhatIfOfARunWithoutATraceSaysHowToGetOne) {
  train("engine=virtual");
  const Outcome outcome = sluice("what-if " + path("run"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.text.find("trace.turns"), std::string::npos)
      << outcome.text;
}

}  // namespace sluice::planner::planner_what_if_test
