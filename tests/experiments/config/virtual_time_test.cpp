#include "experiments/config/virtual_time.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/runs/measuring/calibration.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::virtual_time_test {

using testing::HasSubstr;
using Json = nlohmann::json;

const std::string kNet =
    "model = {name = 'mlp', hidden = [24, 16, 12]}\noptimizer = {lr = 0.05}\n";

TEST(VirtualOptions, GiveOneNumberForAllBlocksOrOneForEach) {
  const Costs costs =
      small_experiment("blocks = 3\n" + kNet +
                       "virtual = {forward = 1, backward = [2, 3, 4], slow = "
                       "['2 x1.5']}\n")
          .costs;
  EXPECT_EQ(costs.blocks[2].seconds[Op::forward], 1);
  EXPECT_EQ(costs.blocks[1].seconds[Op::backward], 3);
  EXPECT_EQ(costs.blocks[1].slowness, 1.5);
  EXPECT_EQ(costs.blocks[0].slowness, 1);
}

TEST(VirtualOptions, KnowABackwardInHalves) {
  const Experiment experiment =
      small_experiment("blocks = 2\n" + kNet +
                       "virtual = {backward = 4, backward_input = [0, 3]}\n");
  const auto seconds = [&](std::size_t block, Op op) {
    return op_seconds(experiment.costs.blocks[block], op);
  };
  EXPECT_EQ(seconds(0, Op::backward_input), 2);
  EXPECT_EQ(seconds(1, Op::backward_input), 3);
  EXPECT_EQ(seconds(1, Op::backward_weights), 2) << "half, where nobody says";
}

TEST(VirtualOptions, AreNoCostsByDefault) {
  EXPECT_FALSE(takes_time(small_experiment("blocks = 2\n" + kNet).costs));
}

// 32 samples of 24 features of 4 bytes, and a label of 8 bytes each.
TEST(VirtualOptions, KnowTheBytesOfMessages) {
  const Experiment experiment =
      small_experiment("blocks = ['0', '1-']\nbatch_size = 32\n" + kNet +
                       "virtual = {bandwidth = 100}\n");
  const MessageBytes& bytes = experiment.costs.bytes.at(0);
  EXPECT_EQ(bytes.gradient, 32 * 24 * 4);
  EXPECT_EQ(bytes.activation, 32 * 24 * 4 + 32 * 8);
}

TEST(Calibration, MeasuresWhatEveryBlockDoes) {
  const Experiment experiment = small_experiment(
      "blocks = 2\n" + kNet +
      "boundary = {policy = 'delayed_gradient'}\nvirtual = {calibrate = true, "
      "slow = ['2x3']}\n");
  const Costs costs = calibrated(experiment, rehearse(experiment));
  for (const BlockCosts& block : costs.blocks) {
    EXPECT_GT(block.seconds[Op::forward], 0);
    EXPECT_GT(block.seconds[Op::backward], 0);
    EXPECT_GT(block.seconds[Op::update], 0);
    EXPECT_EQ(block.seconds[Op::learn], 0);
  }
  EXPECT_GT(costs.in_one_block, 0);
  EXPECT_EQ(costs.blocks[1].slowness, 3);
}

// Block 2 is a second behind: its 10 turns end at 31, its two batches of
// evaluation at 33; only then is it decided whether to go on, and block 1,
// ready at 32, begins its last two turns.
TEST(VirtualEngine, HoldsABlockThatWaitsForADecision) {
  Training training(small_experiment(
      "blocks = 2\nturns = 12\nboundary = {policy = 'local_loss'}\n" + kNet +
      "early_stop = {patience = 9}\n"));
  EXPECT_NEAR(
      training.train(
          {.blocks = {{.seconds = {{Op::forward, 1}, {Op::backward, 2}}},
                      {.seconds = {{Op::forward, 1}, {Op::backward, 2}}}}}),
      33 + 7 + 2, 1e-9);
}

class VirtualTime : public Program {
 protected:
  std::string config(const std::string& lines) const {
    return write(
        "config.toml",
        config_with("blocks = 3\n" + kNet +
                    "boundary = {policy = 'features_replay'}\n" + lines));
  }
};

TEST_F(VirtualTime, ChangesNoWeights) {
  const NamedTensors plain = weights_on("virtual", config(""));
  EXPECT_EQ(
      difference(plain,
                 weights_on("virtual", config("virtual = {forward = [1, 3, 2],"
                                              " backward = 2, latency = 5, "
                                              "jitter = 0.5}\n"))),
      "");
  EXPECT_EQ(
      difference(plain, weights_on("virtual",
                                   config("virtual = {calibrate = true}\n"))),
      "");
  EXPECT_GT(distance(plain, weights_on("virtual", config("seed = 2\n"))), 1e-3);
}

TEST_F(VirtualTime, VirtualTimeOfABarrierChangesNoWeightsOnAnyEngine) {
  const NamedTensors plain = weights_on("virtual", config(""));
  for (const char* engine : {"virtual", "threads", "processes"})
    EXPECT_EQ(difference(plain,
                         weights_on(engine, config("barrier = 'iteration'\n"))),
              "")
        << engine;
}

// 12 turns of F 1 and B 2, the replay forwarding again. With the barriers a
// turn takes three forwards in a row and then 3 s, but in turn 0 only the last
// block goes backward, for 2 s. A drain of two turns and an evaluation of two
// batches follow.
TEST_F(VirtualTime, IsReportedBesideTheReal) {
  const std::string dir = path("run");
  const Outcome run =
      sluice("run " +
             config("barrier = 'iteration'\nevaluate_every = 0\n"
                    "virtual = {forward = 1, backward = 2}\n") +
             " engine=virtual --dir " + dir);
  ASSERT_EQ(run.status, 0) << run.text;
  EXPECT_THAT(run.text, HasSubstr("Virtual clock: "));
  std::istringstream lines(slurp(dir + "/metrics.jsonl"));
  Json summary;
  std::map<int, double> busy;
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line);
    if (record["kind"] == "summary") summary = record;
    if (record["kind"] == "clock" && record.contains("block"))
      busy[record["block"]] = record["busy_s"];
  }
  EXPECT_GT(summary["seconds"], 0);
  EXPECT_NEAR(summary["virtual_seconds"], 12 * (3 + 3) - 1 + 2 * 3 + (3 + 1),
              1e-9);
  EXPECT_NEAR(summary["virtual_samples_per_second"], 12 * 24 / 81., 1e-9);
  EXPECT_NEAR(busy[1], 12 * 4 + 2, 1e-9);
  EXPECT_NEAR(busy[3], 12 * 3 + 2, 1e-9);
}

// The batches that are in flight at the cut come when they would have come.
TEST_F(VirtualTime, GoesOnWhereARunIsResumed) {
  const std::string lines =
      "virtual = {forward = [1, 2, 1.5], backward = 2, latency = 0.7, "
      "bandwidth = 1e4, jitter = 0.3}\n";
  const auto clock_of = [](const std::string& dir) {
    std::map<int, std::pair<double, double>> clock;
    std::istringstream file(slurp(dir + "/metrics.jsonl"));
    for (std::string line; std::getline(file, line);) {
      const Record record = record_from_json(line);
      if (record.text("kind") == "clock")
        clock[static_cast<int>(record.integer("block"))] = {
            record.number("seconds", 0) + record.number("busy_s", 0),
            record.number("samples_per_second", 0) +
                record.number("utilisation", 0)};
    }
    return clock;
  };
  for (const char* policy : {"delayed_gradient", "local_loss", "backprop"}) {
    SCOPED_TRACE(policy);
    const std::string whole = path(std::string("whole-") + policy);
    const std::string part = path(std::string("part-") + policy);
    const std::string with = fmt::format(
        "run {} engine=virtual boundary.policy={} ", config(lines), policy);
    EXPECT_EQ(sluice(with + "turns=20 --dir " + whole).status, 0);
    EXPECT_EQ(sluice(with + "turns=10 drain=false --dir " + part).status, 0);
    EXPECT_EQ(sluice("run --resume " + part + " turns=20 drain=true").status,
              0);
    const auto expected = clock_of(whole);
    const auto resumed = clock_of(part);
    ASSERT_EQ(resumed.size(), 4U);
    for (const auto& [block, figures] : expected) {
      EXPECT_NEAR(resumed.at(block).first, figures.first, 1e-6 * figures.first);
      EXPECT_NEAR(resumed.at(block).second, figures.second,
                  1e-6 * figures.second);
    }
  }
}

TEST_F(VirtualTime, IsDrawnInTheRunsTrace) {
  const std::string dir = path("run");
  sluice("run " + config("virtual = {forward = 1}\ntrace = {turns = 5}\n") +
         " engine=virtual --dir " + dir);
  const Json trace = Json::parse(slurp(dir + "/trace.json"));
  std::map<std::string, int> forwards;
  for (const Json& event : trace.at("traceEvents"))
    if (event.value("cat", "") == "forward")
      ++forwards[event["args"]["action"]];
  EXPECT_EQ(forwards,
            (std::map<std::string, int>{
                {"F0", 3}, {"F1", 3}, {"F2", 3}, {"F3", 3}, {"F4", 3}}));
}

TEST_F(VirtualTime, LeavesNoTraceWhenNothingTakesTime) {
  const std::string dir = path("run");
  sluice("run " + config("") + " engine=virtual --dir " + dir);
  EXPECT_TRUE(std::filesystem::exists(dir + "/done"));
  EXPECT_FALSE(std::filesystem::exists(dir + "/trace.json"));
}

class PlanProgram : public VirtualTime {};

TEST_F(PlanProgram, SaysHowFastTheSteadyStateIs) {
  const Outcome plan =
      sluice("plan " + config("") + " boundary.policy=local_loss" +
             " --forward 1 --backward 2,2,2 --slow 2x2");
  ASSERT_EQ(plan.status, 0) << plan.text;
  EXPECT_THAT(plan.text,
              HasSubstr("6 s a turn, 4 samples/s, 1.50 x one block"));
  EXPECT_THAT(plan.text, HasSubstr("block 2  computes 100.0 % of the time"));
}

TEST_F(PlanProgram, TakesCostsFromTheConfigToo) {
  const Outcome plan =
      sluice("plan " + config("virtual = {forward = 0.5, backward = 1}\n"));
  EXPECT_THAT(plan.text, HasSubstr("2 s a turn, 12 samples/s"));
}

TEST_F(PlanProgram, WritesATrace) {
  const Outcome plan = sluice("plan " + config("") + " --latency 0.5 --trace " +
                              path("trace.json"));
  ASSERT_EQ(plan.status, 0) << plan.text;
  EXPECT_GT(Json::parse(slurp(path("trace.json"))).at("traceEvents").size(),
            50U);
  EXPECT_EQ(sluice("plan " + config("") + " --trace /nowhere/t").status, 2);
}

TEST_F(PlanProgram, Calibrates) {
  const Outcome plan = sluice("plan " + config("") + " --calibrate");
  ASSERT_EQ(plan.status, 0) << plan.text;
  EXPECT_THAT(plan.text, HasSubstr("samples/s"));
}

TEST_F(PlanProgram, SharesOutACalibratedOrDescribedMachinesCores) {
  const std::string machine =
      write("machine.toml", "[[device]]\ncores = 1\nspeed = 2\n");
  const Outcome plan =
      sluice("plan " + config("") + " boundary.policy=local_loss" +
             " --forward 1 --backward 2 --machine " + machine);
  // Three blocks, one after the other, at twice the speed.
  EXPECT_THAT(plan.text, HasSubstr("4.5 s a turn"));
  EXPECT_THAT(plan.text, HasSubstr("1.00 x one block"));
  EXPECT_THAT(plan.text, HasSubstr("share a device: 1 at a time"));
}

}  // namespace sluice::virtual_time_test
