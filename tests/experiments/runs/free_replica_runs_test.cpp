// Runs of replicas with clocks of their own, on every engine, repeated from
// their records.
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/run.h"
#include "experiments/runs/uses/replay.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::free_replica_runs_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kFree = "schedule = 'free'\n";

class FreeReplicasRun
    : public Program,
      public testing::WithParamInterface<
          std::tuple<const char*, std::pair<const char*, const char*>>> {
 protected:
  RunResult run_free(const std::string& lines, RunOptions options) {
    const std::string engine = std::get<0>(GetParam());
    options.folder = path("run");
    options.quiet = true;
    options.program = SLUICE_PROGRAM;
    StopSignals signals;
    const ConfigNode config =
        parse_toml(fmt::format("engine = '{}'\n", engine) + lines, "test.toml");
    return run(read_experiment(config, ""), options, signals);
  }
};

std::string run_of(const std::string& policy, int turns) {
  return fmt::format(
             "turns = {}\nbatch_size = 24\nthreads = 1\nevaluate_every = 0.5\n"
             "checkpoint = {{every_turns = 4}}\n"
             "data = {{train = 240, test = 40}}\n"
             "model = {{hidden = [24, 16], dropout = 0.2, batch_norm = "
             "true}}\n",
             turns) +
         policy + kFree;
}

TEST_P(FreeReplicasRun, IsReplayedBitForBit) {
  const std::string lines = std::get<1>(GetParam()).second;
  run_free(run_of(lines, 12), {});
  const ReplayResult replayed = replay(path("run"));
  EXPECT_EQ(replayed.difference(), "");
  const std::size_t replicas = lines.find("count = 3") == lines.npos ? 4 : 3;
  const bool is_quorum = lines.find("quorum") != lines.npos;  // of two blocks
  const std::size_t seats = is_quorum ? 6 : replicas;
  EXPECT_EQ(replayed.compared.size(), 3 * seats) << "checkpoints 4, 8, 12";
  EXPECT_THAT(slurp(path("run/schedule.txt")), HasSubstr("<1 "));
}

TEST_P(FreeReplicasRun, IsReplayedWhenItWasContinued) {
  const std::string lines = std::get<1>(GetParam()).second;
  run_free(run_of(lines, 8), {});
  run_free(run_of(lines, 12), {.resume = true});
  EXPECT_EQ(replay(path("run")).difference(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Engines, FreeReplicasRun,
    testing::Combine(
        testing::Values("virtual", "threads", "processes"),
        testing::Values(
            std::pair{"Server",
                      "blocks = 1\nreplicas = {count = 3, policy = "
                      "'server'}\n"},
            std::pair{"DelayCompensation",
                      "blocks = 1\nreplicas = {count = 3, policy = 'server'}\n"
                      "optimizer = {name = 'sgd', lr = 0.05, correction = "
                      "{name = 'delay_compensation'}}\n"},
            std::pair{"Dealt",
                      "blocks = 1\nreplicas = {count = 3, policy = 'server', "
                      "deal = 'arrival'}\n"},
            std::pair{"DealtElastic",
                      "blocks = 1\nreplicas = {count = 3, policy = 'elastic', "
                      "one_by_one = true, every = 2, deal = 'arrival'}\n"},
            std::pair{"DelayedNesterov",
                      "blocks = 2\nreplicas = {count = 2, policy = 'server', "
                      "push = 'movement', every = 2, outer_lr = 0.7, "
                      "outer_momentum = 0.9, outer_every = 3, deal = "
                      "'shares'}\n"},
            std::pair{"DynamicUpdates",
                      "blocks = 1\nreplicas = {count = 3, policy = 'server', "
                      "push = 'movement', every = [3, 1, 2], outer_lr = 0.7, "
                      "outer_momentum = 0.9, outer_every = 3}\n"},
            std::pair{"LookAhead",
                      "blocks = 1\nreplicas = {count = 3, policy = 'elastic', "
                      "one_by_one = true, every = 2}\n"
                      "optimizer = {name = 'sgd', lr = 0.05, momentum = 0.9, "
                      "look_ahead = true}\n"},
            std::pair{"DealtBlocks",
                      "blocks = 2\nreplicas = {count = 2, policy = 'server', "
                      "deal = 'arrival'}\nin_flight = 3\nboundary = {policy = "
                      "'delayed_gradient'}\n"},
            std::pair{"DelayedBlocks",
                      "blocks = 2\nreplicas = {count = 2, policy = 'server'}\n"
                      "in_flight = 3\nboundary = {policy = "
                      "'delayed_gradient'}\n"},
            std::pair{"Pairs",
                      "blocks = 1\nreplicas = {count = 4, policy = 'gossip', "
                      "pairs = true}\n"},
            std::pair{"Partners",
                      "blocks = 1\nreplicas = {count = 4, policy = 'gossip', "
                      "pairs = true, meet_at = 'partner'}\n"},
            std::pair{"PartnersOfTwoBlocks",
                      "blocks = 2\nreplicas = {count = 2, policy = 'gossip', "
                      "pairs = true, meet_at = 'partner', every = 3, mix = "
                      "'after'}\nin_flight = 3\nboundary = {policy = "
                      "'delayed_gradient'}\n"},
            std::pair{"Neighbours",
                      "blocks = 1\nreplicas = {count = 4, policy = "
                      "'neighbours', adopt_every = 0.3}\n"},
            std::pair{"NeighboursOfTwoBlocks",
                      "blocks = 2\nreplicas = {count = 2, policy = "
                      "'neighbours'}\nin_flight = 3\nboundary = {policy = "
                      "'delayed_gradient'}\n"},
            std::pair{"Backup",
                      "blocks = 1\nreplicas = {count = 3, policy = "
                      "'all_reduce', backup = 1}\n"},
            std::pair{"Quorum",
                      "blocks = 2\nreplicas = {count = 3, policy = 'average', "
                      "every = 2, quorum = 2, grace = 0.002, outer_lr = 0.7, "
                      "outer_momentum = 0.9}\n"},
            std::pair{"Elastic",
                      "blocks = 2\nreplicas = {count = 2, policy = 'elastic', "
                      "one_by_one = true, every = 2}\n"})),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) + "_" +
             std::get<1>(info.param).first;
    });

constexpr const char* kTwoByTwo =
    "blocks=2 replicas.count=2 replicas.policy=server schedule=free "
    "in_flight=3 ";

constexpr const char* kPartners =
    "blocks=2 replicas.count=2 replicas.policy=gossip replicas.pairs=true "
    "replicas.meet_at=partner schedule=free in_flight=3 ";

/// Faults in one of 4 workers, of which 1 and 2 have the centres, or of
/// partners 3 and 4.
class FreeReplicasAfter
    : public Faults,
      public testing::WithParamInterface<std::pair<const char*, const char*>> {
};

TEST_P(FreeReplicasAfter, AKillAreReplayedWithWhatTheyDidBefore) {
  const auto [lines, fault] = GetParam();
  const Outcome outcome = run_with(fault, lines);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(records_of(path("disturbed"), "restart").size(), 1U);
  const ReplayResult replayed = replay(path("disturbed"));
  EXPECT_EQ(replayed.difference(), "");
  EXPECT_EQ(replayed.compared.size(), 5U * 4) << "checkpoints 4, 8, ... 20";
  expect_nothing_left("disturbed");
}

INSTANTIATE_TEST_SUITE_P(
    Kills, FreeReplicasAfter,
    testing::Values(std::pair{kTwoByTwo, "kill block 1 @ turn 6"},
                    std::pair{kTwoByTwo, "kill block 3 @ turn 10"},
                    std::pair{kTwoByTwo, "kill block 4 @ turn 13"},
                    std::pair{kPartners, "kill block 1 @ turn 6"},
                    std::pair{kPartners, "kill block 4 @ turn 10"}));

using FreeReplicasInFlight = Faults;

TEST_F(FreeReplicasInFlight, GoOnWithWhatEachHad) {
  for (const char* engine : {"virtual", "threads"}) {
    const std::string more =
        fmt::format("{} --overwrite engine={} ", kTwoByTwo, engine);
    ASSERT_EQ(run("parts", more + "turns=8 drain=false").status, 0);
    const Outcome resumed =
        sluice("run --resume " + path("parts") + " turns=20 drain=true");
    ASSERT_EQ(resumed.status, 0) << resumed.text;
    EXPECT_EQ(replay(path("parts")).difference(), "") << engine;
  }
}

TEST_F(FreeReplicasInFlight, AreNotRepeatedAtARateOfAnotherLengthWhichIsSaid) {
  const std::string cosine =
      std::string(kTwoByTwo) +
      "engine=virtual 'optimizer.schedule={name=" + "\"cosine\"}' ";
  ASSERT_EQ(run("parts", cosine + "turns=8").status, 0);
  ASSERT_EQ(sluice("run --resume " + path("parts") + " turns=12").status, 0);
  const Outcome replayed = sluice("replay " + path("parts"));
  EXPECT_EQ(replayed.status, 1) << replayed.text;
  EXPECT_THAT(
      replayed.text,
      HasSubstr("the schedule 'cosine' now ends after turn 12, not 8; the "
                "replay has the rates of its last part"));
}

TEST_F(FreeReplicasInFlight, GoOnInTheirNumberOnly) {
  ASSERT_EQ(
      run("parts", std::string(kTwoByTwo) + "engine=virtual turns=8").status,
      0);
  const Outcome other =
      sluice("run --resume " + path("parts") + " turns=12 replicas.count=3");
  EXPECT_EQ(other.status, 2) << other.text;
  EXPECT_THAT(other.text, AllOf(HasSubstr("schedule = 'free'"),
                                HasSubstr("begin a run with")));
  const Outcome same = sluice("run --resume " + path("parts") + " turns=12");
  EXPECT_EQ(same.status, 0) << same.text;
}

/// A checkpoint finds a window open: block 2 has applied 7 batches, and
/// makes an update of two.
TEST_F(FreeReplicasInFlight, CountHowLateEachGradientWas) {
  const std::string more = std::string(kTwoByTwo) + "engine=virtual ";
  ASSERT_EQ(
      run("parts", more + "turns=7 drain=false accumulate.batches=2").status,
      0);
  const Outcome resumed =
      sluice("run --resume " + path("parts") + " turns=20 drain=true");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  // The last that is said of each block, replica and value.
  std::map<std::string, std::map<std::tuple<double, double, double>, double>>
      times;
  for (const Record& record : records_of(path("parts"), "staleness"))
    times[record.text("counter")]
         [{record.number("block", 0), record.number("replica", 0),
           record.number("value", -1)}] = record.number("times", 0);
  const auto sum_of = [&](const char* counter, double block) {
    double sum = 0;
    for (const auto& [key, count] : times[counter])
      if (std::get<0>(key) == block) sum += count;
    return sum;
  };
  EXPECT_EQ(sum_of("d_batch", 2), 2 * 20);
  EXPECT_EQ(sum_of("d_upd", 2), 2 * 20);
}

}  // namespace sluice::free_replica_runs_test
