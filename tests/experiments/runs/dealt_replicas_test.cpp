// Replicas with clocks of their own that come for their batches.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/run.h"
#include "experiments/runs/uses/replay.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/process_group.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/recorded.h"
#include "tests/experiments/helpers/trained_replicas.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::dealt_replicas_test {

using free_replicas::costs_with;
using free_replicas::recorded;
using replica_runs::trained;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

constexpr std::size_t kReplicas = 4;
constexpr std::size_t kTurns = 12;

constexpr const char* kPolicies[] = {
    "'server'",
    "'server', softsync = 2",
    "'server', push = 'movement', every = 3",
    "'elastic', one_by_one = true, every = 2",
    "'gossip', pairs = true, mix = 'before'",
    "'neighbours', graph = 'ring'",
    "'average', every = 2, quorum = 2, outer_lr = 0.7"};

std::string config_of(const std::string& policy, const char* deal,
                      const char* blocks = "1") {
  return fmt::format(
      "batch_size = 8\nturns = {}\nblocks = {}\nschedule = 'free'\n"
      "evaluate_every = 0\n"
      "model = {{hidden = [24, 16], dropout = 0.2, batch_norm = true}}\n"
      "optimizer = {{name = 'sgd', lr = 0.05, momentum = 0.5, schedule = "
      "{{name = 'cosine'}}}}\n"
      "replicas = {{count = {}, policy = {}, deal = '{}'}}\n",
      kTurns, blocks, kReplicas, policy, deal);
}

/// Batches of all replicas, of the data's order.
std::vector<std::int64_t> all_batches() {
  std::vector<std::int64_t> all(kReplicas * kTurns);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::int64_t> applied_by(const std::vector<Action>& actions) {
  std::vector<std::int64_t> applied;
  for (const Action& action : actions)
    if (action.op == Op::update) applied.push_back(action.batch);
  return applied;
}

std::vector<std::int64_t> applied_by_all(
    const std::vector<std::vector<Action>>& schedule) {
  std::vector<std::int64_t> applied;
  for (const auto& actions : schedule)
    for (const std::int64_t batch : applied_by(actions))
      applied.push_back(batch);
  return applied;
}

TEST(DealtReplicas, HaveTheBitsOfTheirSharesAtTheSameSpeed) {
  const Costs even = costs_with(1, {1, 1, 1, 1});
  for (const char* policy : kPolicies) {
    const auto dealt = trained(config_of(policy, "arrival"), even);
    const auto shares = trained(config_of(policy, "shares"), even);
    for (std::size_t r = 0; r < dealt.size(); ++r)
      EXPECT_EQ(difference(dealt[r], shares[r]), "") << policy << ", " << r;
  }
}

TEST(DealtReplicas, GoElsewhereAndEndEarlierWhereOneIsSlow) {
  const Costs slow = costs_with(1, {1, 4, 1, 1});
  for (const char* policy : kPolicies) {
    const auto dealt = recorded(config_of(policy, "arrival"), slow);
    const auto shares = recorded(config_of(policy, "shares"), slow);
    EXPECT_GT(distance(dealt.weights[0], shares.weights[0]), 1e-4) << policy;
    EXPECT_LT(dealt.seconds, 0.5 * shares.seconds) << policy;
    EXPECT_THAT(applied_by_all(dealt.actions),
                UnorderedElementsAreArray(all_batches()))
        << policy;
    EXPECT_LT(applied_by(dealt.actions[1]).size(), 6U) << policy;
  }
}

/// What replicas are dealt where the config doesn't say, or does.
TEST(DealtReplicas, AreTheDefaultWhereWorkCanFollowSpeed) {
  const std::string net = "batch_size = 8\nturns = 4\nblocks = 1\n";
  const auto dealing = [&](const std::string& lines) {
    const Experiment experiment = small_experiment(net + lines);
    const ConfigNode* said = experiment.resolved.find("replicas")->find("deal");
    EXPECT_EQ(said->literal(), experiment.replicas.dealing == Dealing::arrival
                                   ? "\"arrival\""
                                   : "\"shares\"");
    EXPECT_EQ(experiment.length.has_shares,
              experiment.replicas.dealing == Dealing::shares);
    return experiment.replicas.dealing;
  };
  const std::string server = "replicas = {count = 2, policy = 'server'}\n";
  const std::string free = "schedule = 'free'\n";
  EXPECT_EQ(dealing(free + server), Dealing::arrival);
  EXPECT_EQ(dealing(free + "replicas = {count = 2, policy = 'server', deal = "
                           "'shares'}\n"),
            Dealing::shares);
  EXPECT_EQ(dealing(free + server + "accumulate = {batches = 2}\n"),
            Dealing::shares);
  EXPECT_EQ(dealing(free + "replicas = {count = 2}\n"), Dealing::shares)
      << "they wait for the gradients of a turn";
  EXPECT_EQ(dealing(server), Dealing::shares) << "in lockstep";
}

using DealtReplicasRun = Program;

TEST_F(DealtReplicasRun, AppliesEachBatchOnceOnEveryEngine) {
  const std::pair<const char*, const char*> runs[] = {
      {"virtual", "1"}, {"threads", "1"}, {"processes", "1"},
      {"virtual", "3"}, {"threads", "3"}, {"processes", "3"}};
  for (const auto& [engine, blocks] : runs) {
    SCOPED_TRACE(std::string(engine) + ", blocks " + blocks);
    const std::string folder = path(std::string(engine) + blocks);
    StopSignals signals;
    const Experiment experiment = read_experiment(
        parse_toml(fmt::format("engine = '{}'\nthreads = 1\n"
                               "checkpoint = {{every_turns = 4}}\n"
                               "data = {{train = 480, test = 40}}\n",
                               engine) +
                       config_of("'server'", "arrival", blocks),
                   "test.toml"),
        "");
    run(experiment,
        {.folder = folder, .quiet = true, .program = SLUICE_PROGRAM}, signals);
    const auto schedule =
        read_schedule(schedule_of_run(folder), experiment.plans.front());
    const auto depth = static_cast<std::size_t>(experiment.blocks());
    for (std::size_t block = 0; block < depth; ++block) {
      std::vector<std::vector<Action>> of_block;
      for (std::size_t r = 0; r < kReplicas; ++r)
        of_block.push_back(schedule.at(r * depth + block));
      EXPECT_THAT(applied_by_all(of_block),
                  UnorderedElementsAreArray(all_batches()));
    }
    EXPECT_EQ(replay(folder).difference(), "");
  }
}

// Several grants follow each other without an evaluation or a checkpoint
// between them: the block below has nothing to do but to say that all is dealt.
TEST_F(DealtReplicasRun, GoesOnFromGrantToGrant) {
  for (const char* engine : {"virtual", "threads", "processes"}) {
    SCOPED_TRACE(engine);
    const Outcome outcome =
        sluice(fmt::format("run {} --dir {} engine={} turns=40",
                           write("long.toml",
                                 "threads = 1\nengine = 'threads'\n"
                                 "data = {train = 480, test = 40}\n" +
                                     config_of("'server'", "arrival", "2")),
                           path(engine), engine));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
  }
}

/// The third replica is killed with the first batch that it was dealt.
TEST_F(DealtReplicasRun, DoesTheWorkOfALostReplica) {
  const std::string config = write(
      "config.toml",
      "engine = 'processes'\nthreads = 1\n"
      "data = {train = 480, test = 40}\ncheckpoint = {every_turns = 4}\n" +
          config_of("'average', every = 2, quorum = 2", "arrival"));
  const Outcome outcome = sluice("run " + config + " --dir " + path("run") +
                                 " --inject \"kill block 3 @ turn 0\"");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Replica 3 is lost"));
  EXPECT_THAT(outcome.text, HasSubstr("do its work"));
  RunPlan plan = {.blocks = std::vector<BlockPlan>(kReplicas)};
  for (BlockPlan& block : plan.blocks)
    block.exchange = {.what = ExchangedTensors::weights, .served = true};
  auto schedule = read_schedule(schedule_of_run(path("run")), plan);
  EXPECT_TRUE(applied_by(schedule.at(2)).empty());
  schedule.erase(schedule.begin() + 2);
  EXPECT_THAT(applied_by_all(schedule),
              UnorderedElementsAreArray(all_batches()))
      << "each once, by the others";
}

// A replica waits at the average of one block for another, and that one for it
// at that of another block: by chance, in several of these runs.
TEST_F(DealtReplicasRun, GoesOnWhereReplicasOfAQuorumWaitInACircle) {
  const std::string config = write(
      "config.toml",
      "threads = 1\ntimeout = 30\nboundary = {policy = 'delayed_gradient'}\n"
      "data = {train = 480, test = 40}\ncheckpoint = {every_turns = 4}\n" +
          config_of("'average', every = 2, quorum = 3", "arrival", "2"));
  for (const char* engine : {"threads", "threads", "threads", "processes"}) {
    const Outcome outcome =
        sluice(fmt::format("run {} --overwrite --dir {} turns=20 engine={}",
                           config, path("run"), engine));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(replay(path("run")).difference(), "");
  }
}

// With batches under way, and above them a block that goes by what comes: what
// is dealt again overtakes none.
TEST_F(DealtReplicasRun, DoesTheWorkOfAReplicaThatIsLostWithBatchesUnderWay) {
  for (const char* policy : {"'server'", "'average', every = 2, quorum = 2"}) {
    SCOPED_TRACE(policy);
    const std::string config = write(
        "config.toml",
        "engine = 'processes'\nthreads = 1\ntimeout = 30\n"
        "boundary = {policy = 'delayed_gradient'}\n"
        "data = {train = 480, test = 40}\ncheckpoint = {every_turns = 4}\n" +
            config_of(policy, "arrival", "2"));
    const Outcome outcome =
        sluice("run " + config + " --overwrite --dir " + path("run") +
               " turns=40 --inject \"kill block 6 @ turn 9\"");
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("Replica 3 is lost"));
    EXPECT_THAT(outcome.text, HasSubstr("do its work"));
    if (std::string(policy) == "'server'") {
      EXPECT_EQ(replay(path("run")).difference(), "");
    }
  }
}

// The third replica has a batch when all others have come to the last
// checkpoint, and is lost there.
TEST_F(DealtReplicasRun, DoesTheWorkOfALostReplicaWhereItIsContinued) {
  const std::string config = write(
      "config.toml",
      "engine = 'processes'\nthreads = 1\n"
      "data = {train = 480, test = 40}\ncheckpoint = {every_turns = 4}\n" +
          config_of("'server'", "arrival"));
  ProcessGroup run(fmt::format("{} run {} --dir {} turns=4 --inject \"slow "
                               "block 3 x100000\"",
                               SLUICE_PROGRAM, config, path("run")),
                   path("run.txt"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (records_of(path("run"), "train").size() < 4 * kReplicas - 1) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << slurp(path("run.txt"));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ::kill(worker_of(path("run"), 3), SIGKILL);
  ASSERT_EQ(run.wait(), 0) << slurp(path("run.txt"));
  const Outcome more = sluice("run --resume " + path("run") + " turns=12");
  ASSERT_EQ(more.status, 0) << more.text;
  RunPlan plan = {.blocks = std::vector<BlockPlan>(kReplicas)};
  for (BlockPlan& block : plan.blocks)
    block.exchange = {.what = ExchangedTensors::gradients, .served = true};
  EXPECT_THAT(applied_by_all(read_schedule(schedule_of_run(path("run")), plan)),
              UnorderedElementsAreArray(all_batches()));
}

/// A run and its halves, of which the replicas' own updates go on counting.
/// Both evaluate after 8 turns, which takes the first replica its time.
TEST_F(DealtReplicasRun, IsContinuedToTheBit) {
  const std::string config = write(
      "config.toml",
      "engine = 'virtual'\nthreads = 1\n"
      "data = {train = 480, test = 40}\ncheckpoint = {every_turns = 4}\n"
      "virtual = {forward = 1.0, backward = 2.0, slow = ['1.3x3']}\n" +
          config_of("'elastic', one_by_one = true, every = 3", "arrival"));
  const auto ran = [&](const std::string& command) {
    const Outcome outcome = sluice(command);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
  };
  const std::string more =
      " optimizer.schedule.name=constant evaluate_every=0.5333 ";
  ran("run " + config + " --dir " + path("whole") + more);
  ran("run " + config + " --dir " + path("parts") + more + "turns=8");
  ran("run --resume " + path("parts") + " turns=12");
  EXPECT_EQ(slurp(path("parts/schedule.txt")),
            slurp(path("whole/schedule.txt")));
  EXPECT_EQ(replay(path("parts")).difference(), "");
}

}  // namespace sluice::dealt_replicas_test
