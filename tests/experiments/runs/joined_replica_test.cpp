// Replicas join a run in processes while it goes on, and leave it again.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/uses/replay.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/process_group.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::joined_replica_test {

using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAreArray;

struct JoinedCase {
  const char* name = "";
  const char* policy = "";
  int blocks = 1;
  int places = 3;
};

/// A run that starts with two of its replicas, slowed such that others
/// come in time.
class Joined : public Program {
 protected:
  static constexpr int kTurns = 48;

  void start(const JoinedCase& of, const std::string& more = "") {
    const std::string config = write(
        "config.toml",
        fmt::format("engine = 'processes'\nthreads = 1\nbatch_size = 8\n"
                    "turns = {}\nblocks = {}\nschedule = 'free'\n"
                    "evaluate_every = 0\n"
                    "checkpoint = {{every_turns = 10}}\n"
                    "data = {{train = 480, test = 40}}\n"
                    "model = {{hidden = [24, 16], batch_norm = true}}\n"
                    "optimizer = {{name = 'sgd', lr = 0.02}}\n"
                    "replicas = {{count = {}, start_with = 2, policy = {}}}\n",
                    kTurns, of.blocks, of.places, of.policy));
    run_.emplace(
        fmt::format("{} run {} --dir {} {} --inject \"slow block 1 x40; "
                    "slow block {} x40\"",
                    SLUICE_PROGRAM, config, path("run"), more, of.blocks + 1),
        path("run.txt"));
    await("the run", [&] { return !records_of(path("run"), "train").empty(); });
  }

  template <class Done>
  static void await(const std::string& what, const Done& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << what;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  std::string join_command() const {
    return fmt::format("{} join {} --wait 60", SLUICE_PROGRAM, path("run"));
  }
  std::size_t joins() const {
    return records_of(path("run"), "joined_replica").size();
  }
  bool has_trained(double replica) const {
    const std::vector<Record> all = records_of(path("run"), "train");
    return std::any_of(all.begin(), all.end(), [&](const Record& each) {
      return each.number("replica", 0) == replica;
    });
  }
  std::size_t losses() const {
    return records_of(path("run"), "lost_replica").size();
  }

  /// The batches that all replicas have applied, of a block.
  std::vector<std::int64_t> applied(int block, int blocks) const {
    const Experiment experiment =
        read_experiment(read_toml_file(config_of_run(path("run"))), "");
    const auto schedule =
        read_schedule(schedule_of_run(path("run")), experiment.plans.front());
    std::vector<std::int64_t> all;
    for (std::size_t seat = static_cast<std::size_t>(block) - 1;
         seat < schedule.size(); seat += static_cast<std::size_t>(blocks))
      for (const Action& action : schedule[seat])
        if (action.op == Op::update) all.push_back(action.batch);
    return all;
  }
  static std::vector<std::int64_t> all_batches(int places) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(places * kTurns));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  std::string replay_of_run() const { return replay(path("run")).difference(); }

  std::optional<ProcessGroup> run_;
};

class JoinedOf : public Joined,
                 public testing::WithParamInterface<JoinedCase> {};

INSTANTIATE_TEST_SUITE_P(
    Policies, JoinedOf,
    testing::Values(
        JoinedCase{"Server", "'server'", 2},
        JoinedCase{"Movement", "'server', push = 'movement', every = 2", 1},
        JoinedCase{"Elastic", "'elastic', one_by_one = true, every = 2", 1},
        JoinedCase{"Gossip", "'gossip', pairs = true", 1, 4},
        JoinedCase{"Neighbours", "'neighbours', adopt_every = 0.5", 1, 4},
        JoinedCase{"Quorum", "'average', every = 2, quorum = 2", 2}),
    [](const auto& info) { return std::string(info.param.name); });

// Batches are dealt to it from then on, and each is applied once.
TEST_P(JoinedOf, ReplicaTrainsFromTheNextGrantToTheEnd) {
  const JoinedCase of = GetParam();
  start(of);
  ProcessGroup third(join_command(), path("join.txt"));
  EXPECT_EQ(run_->wait(), 0) << slurp(path("run.txt"));
  EXPECT_EQ(third.wait(), 0) << slurp(path("join.txt"));
  EXPECT_THAT(slurp(path("run.txt")), HasSubstr("Replica 3 joins the run"));
  EXPECT_THAT(slurp(path("join.txt")), HasSubstr("the run is over"));
  ASSERT_EQ(joins(), 1U);
  const Record joined = records_of(path("run"), "joined_replica").front();
  EXPECT_EQ(joined.number("replica", 0), 3);
  EXPECT_GT(joined.number("turn", 0), 0);
  EXPECT_EQ(losses(), 0U);
  EXPECT_EQ(replay(path("run")).difference(), "");
  for (int block = 1; block <= of.blocks; ++block)
    EXPECT_THAT(applied(block, of.blocks),
                UnorderedElementsAreArray(all_batches(of.places)))
        << block;
  std::size_t of_third = 0;
  for (const Record& block : records_of(path("run"), "block"))
    if (block.number("replica", 0) == 3) ++of_third;
  EXPECT_EQ(of_third, static_cast<std::size_t>(of.blocks));
}

// Killed, and replaced by another, at the same place.
TEST_P(JoinedOf, ReplicaThatIsLostLeavesItsPlaceToAnother) {
  start(GetParam(), "turns=120");
  {
    const ProcessGroup third(join_command(), path("join.txt"));
    // Before that, nothing would record at which place of its centre it was
    // lost.
    await("a third replica at work", [&] { return has_trained(3); });
    third.signal(SIGKILL);
    await("its loss", [&] { return losses() == 1; });
  }
  ProcessGroup next(join_command(), path("next.txt"));
  EXPECT_EQ(run_->wait(), 0) << slurp(path("run.txt"));
  EXPECT_EQ(next.wait(), 0) << slurp(path("next.txt"));
  EXPECT_EQ(joins(), 2U);
  EXPECT_EQ(replay_of_run(), "");
  // Goes on with those that it had started with.
  const Outcome resumed =
      sluice(fmt::format("run --resume {} turns=124", path("run")));
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_THAT(resumed.text, Not(HasSubstr("is back")));
}

// Two come, and one of those goes: the record has what it had done.
TEST_F(Joined, RunIsReplayedToTheBit) {
  start({.policy = "'server'", .blocks = 2, .places = 4}, "turns=120");
  const ProcessGroup one(join_command(), path("join.txt"));
  const ProcessGroup other(join_command(), path("next.txt"));
  await("two more replicas", [&] { return joins() == 2; });
  one.signal(SIGKILL);
  EXPECT_EQ(run_->wait(), 0) << slurp(path("run.txt"));
  EXPECT_EQ(losses(), 1U);
  EXPECT_EQ(replay(path("run")).difference(), "");
}

// The process and its links live: the launcher alone knows that it is lost.
TEST_F(Joined, ReplicaThatIsSuspendedLeavesTheRunToTheOthers) {
  start({.policy = "'server'", .blocks = 2}, "timeout=6");
  const ProcessGroup third(join_command(), path("join.txt"));
  await("a third replica", [&] { return joins() == 1; });
  third.signal(SIGSTOP);
  EXPECT_EQ(run_->wait(), 0) << slurp(path("run.txt"));
  EXPECT_EQ(losses(), 1U) << slurp(path("run.txt"));
  EXPECT_THAT(slurp(path("run.txt")), HasSubstr("it was silent for"));
  third.signal(SIGCONT);
}

TEST_F(Joined, RunGoesOnWhereItsNoteCannotBeWritten) {
  start({.policy = "'server'"}, "turns=4000");
  const ProcessGroup third(join_command(), path("join.txt"));
  await("a third replica", [&] { return joins() == 1; });
  std::filesystem::create_directory(path("run") + "/door.json");
  third.signal(SIGKILL);
  const auto is_said = [&] {
    return slurp(path("run.txt")).find("no replica can join any more") !=
           std::string::npos;
  };
  await("the end of joining", is_said);
  const auto turns = [&] { return records_of(path("run"), "train").size(); };
  await("turns after it", [&, before = turns()] { return turns() > before; });
  run_->signal_leader(SIGTERM);
  EXPECT_EQ(run_->wait(), 0) << slurp(path("run.txt"));
}

TEST_F(Joined, ReplicaLeavesAtASignal) {
  start({.policy = "'server'", .blocks = 2});
  ProcessGroup third(join_command(), path("join.txt"));
  await("a third replica", [&] { return joins() == 1; });
  third.signal_leader(SIGTERM);
  EXPECT_EQ(third.wait(), 0);
  EXPECT_THAT(slurp(path("join.txt")), HasSubstr("Replica 3 leaves the run"));
  EXPECT_EQ(run_->wait(), 0) << slurp(path("run.txt"));
  EXPECT_EQ(losses(), 1U);
}

// The place is one's, and the other waits for it.
TEST_F(Joined, TwoReplicasDoNotGetTheSamePlace) {
  start({.policy = "'server'"});
  ProcessGroup third(join_command(), path("join.txt"));
  ProcessGroup fourth(
      fmt::format("{} join {} --wait 1", SLUICE_PROGRAM, path("run")),
      path("late.txt"));
  const int of_third = third.wait();
  const int of_fourth = fourth.wait();
  EXPECT_EQ(run_->wait(), 0) << slurp(path("run.txt"));
  EXPECT_EQ(joins(), 1U);
  EXPECT_NE(of_third == 0, of_fourth == 0)
      << slurp(path("join.txt")) << slurp(path("late.txt"));
}

TEST_F(Joined, RunThatIsOverHasNoPlace) {
  start({.policy = "'server'"}, "turns=4");
  EXPECT_EQ(run_->wait(), 0);
  const Outcome outcome = sluice("join " + path("run") + " --wait 0");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text,
              HasSubstr("has no free place for a replica: it is over"));
}

TEST_F(Joined, RunWhoseReplicasWaitForEachOtherIsRefused) {
  const std::string config =
      write("lockstep.toml", config_with("replicas = {count = 2}\n"));
  ASSERT_EQ(sluice("run " + config + " --dir " + path("lockstep")).status, 0);
  const Outcome outcome = sluice("join " + path("lockstep"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("no replica can join this run"));
}

}  // namespace sluice::joined_replica_test
