// An assistant that draws ahead by the losses that have come
// (data.assist.schedule = "free"), in whole runs.
#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runs/uses/replay.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::free_assist_test {

using testing::HasSubstr;

const char* const kBackprop =
    "blocks = ['0', '1-']\nboundary = {policy = 'backprop'}\n";
const char* const kDelayed =
    "blocks = ['0', '1', '2-']\nboundary = {policy = 'delayed_gradient'}\n";
const char* const kFreeBlocks =
    "blocks = ['0', '1', '2-']\nschedule = 'free'\nin_flight = 4\n"
    "boundary = {policy = 'delayed_gradient'}\n";
const char* const kReplicas =
    "blocks = ['0', '1-']\nboundary = {policy = 'backprop'}\n"
    "replicas = {count = 2, policy = 'average', every = 2}\n";
const char* const kFreeReplicas =
    "blocks = ['0', '1-']\nschedule = 'free'\nin_flight = 2\n"
    "boundary = {policy = 'delayed_gradient'}\n"
    "replicas = {count = 2, policy = 'server', deal = 'shares'}\n";

/// 10 batches of 24 to an epoch.
std::string config(const std::string& assist, const std::string& lines,
                   int prefetch = 2) {
  return fmt::format(
      "turns = 24\nbatch_size = 24\nthreads = 1\ndrain = false\n"
      "checkpoint = {{every_turns = 8}}\nmodel = {{hidden = [24, 20]}}\n"
      "data = {{train = 240, test = 40, prefetch = {}, assist = "
      "{{learning_rate = 0.1, {}}}}}\n{}",
      prefetch, assist, lines);
}

std::string free_config(const std::string& lines) {
  return config("acceptance = 0.2, schedule = 'free'", lines);
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment("engine = 'virtual'\n" + lines));
  training.train();
  return training.weights();
}

/// Where nothing is left to a clock, it has learned what a lag says: losses are
/// known 1 and 3 turns later, and two batches are drawn ahead.
TEST(FreeAssist, HasTheBitsOfLockstepWithTheLagOfItsDraws) {
  for (const auto& [lines, lag] :
       {std::pair(kBackprop, 3), std::pair(kDelayed, 5)}) {
    const auto lockstep = [&, lines = lines](int turns) {
      return trained(
          config(fmt::format("acceptance = 0.2, lag = {}", turns), lines));
    };
    const NamedTensors free = trained(free_config(lines));
    EXPECT_EQ(difference(free, lockstep(lag)), "") << lines;
    EXPECT_NE(difference(free, lockstep(lag + 1)), "") << lines;
  }
}

TEST(FreeAssist, WithReplicasHasTheBitsOfLockstepToo) {
  const auto lockstep = [&](int turns) {
    return trained(
        config(fmt::format("acceptance = 0.2, lag = {}", turns), kReplicas));
  };
  const NamedTensors free = trained(free_config(kReplicas));
  EXPECT_EQ(difference(free, lockstep(3)), "");
  EXPECT_NE(difference(free, lockstep(4)), "");
}

class FreeAssistRuns : public Faults {
 protected:
  Outcome run_it(const std::string& lines, const std::string& more) {
    write("c.toml", free_config(lines));
    return sluice("run " + path("c.toml") + " --overwrite --dir " +
                  path("run") + " " + more);
  }
  void expect_replayed(const std::string& of, std::size_t checkpoints) {
    const ReplayResult replayed = replay(path("run"));
    EXPECT_EQ(replayed.difference(), "") << of;
    EXPECT_EQ(replayed.compared.size(), checkpoints) << of;
  }
};

struct Ways {
  const char* name;
  const char* lines;
  std::size_t seats;
};

class FreeAssistOn
    : public FreeAssistRuns,
      public testing::WithParamInterface<std::tuple<const char*, Ways>> {};

TEST_P(FreeAssistOn, AnEngineIsReplayedBitForBit) {
  const auto& [engine, ways] = GetParam();
  const Outcome outcome = run_it(ways.lines, std::string("engine=") + engine);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_FALSE(records_of(path("run"), "drawn").empty());
  expect_replayed(engine, 3 * ways.seats);
}

INSTANTIATE_TEST_SUITE_P(
    Engines, FreeAssistOn,
    testing::Combine(testing::Values("virtual", "threads", "processes"),
                     testing::Values(Ways{"Backprop", kBackprop, 2},
                                     Ways{"Delayed", kDelayed, 3},
                                     Ways{"FreeBlocks", kFreeBlocks, 3},
                                     Ways{"Replicas", kReplicas, 4},
                                     Ways{"FreeReplicas", kFreeReplicas, 4})),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) +
             std::get<1>(info.param).name;
    });

/// Without the record the samples are others.
TEST_F(FreeAssistRuns, AreReplayedByTheirRecord) {
  const Outcome outcome = run_it(kBackprop, "engine=threads");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  std::vector<std::string> kept;
  {
    std::ifstream file(path("run/metrics.jsonl"));
    for (std::string line; std::getline(file, line);)
      if (line.find("\"drawn\"") == line.npos) kept.push_back(line);
  }
  std::ofstream file(path("run/metrics.jsonl"));
  for (const std::string& line : kept) file << line << '\n';
  file.close();
  EXPECT_NE(replay(path("run")).difference(), "");
}

TEST_F(FreeAssistRuns, AreReplayedAcrossAResume) {
  for (const char* lines : {kDelayed, kFreeBlocks, kReplicas, kFreeReplicas}) {
    const Outcome begun = run_it(lines, "engine=threads turns=9");
    ASSERT_EQ(begun.status, 0) << begun.text;
    const Outcome resumed = sluice("run --resume " + path("run") + " turns=24");
    ASSERT_EQ(resumed.status, 0) << resumed.text;
    EXPECT_EQ(replay(path("run")).difference(), "") << lines;
  }
}

/// A killed process goes on from the last checkpoint, with what was drawn ahead
/// there: with acceptance = 1 the bits are those of all samples in their order.
TEST_F(FreeAssistRuns, LoseNoSampleWhenAProcessIsKilled) {
  const std::string kill =
      "engine=processes on_failure=restart --inject 'kill block 1 @ turn 13; "
      "kill block 2 @ turn 18'";
  const Outcome outcome = run_it(kDelayed, "data.assist.acceptance=1 " + kill);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Restart 2"));
  write("plain.toml", config("acceptance = 0", kDelayed));
  const Outcome plain = sluice("run " + path("plain.toml") +
                               " engine=virtual --dir " + path("plain"));
  ASSERT_EQ(plain.status, 0) << plain.text;
  EXPECT_EQ(difference(weights_at_end("run"), weights_at_end("plain")), "");
}

TEST_F(FreeAssistRuns, AreReplayedAfterAKill) {
  for (const char* lines : {kDelayed, kFreeBlocks}) {
    const Outcome outcome =
        run_it(lines,
               "engine=processes on_failure=restart --inject 'kill block 1 @ "
               "turn 13; kill block 2 @ turn 18'");
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("Restart 2"));
    EXPECT_EQ(replay(path("run")).difference(), "") << lines;
  }
}

}  // namespace sluice::free_assist_test
