// A run whose workers are lost goes on, and ends with the bits of one that was
// not disturbed.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runs/checkpoints/grant_start.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/uses/replay.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/process_group.h"

namespace sluice::restart_test {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

using Restart = Faults;

TEST_F(Restart, AfterAKillGoesBackToTheLastCheckpointAndSaysSo) {
  const Outcome outcome = run_with("kill block 2 @ turn 10");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("of block 2 was ended by signal 9"));
  EXPECT_THAT(outcome.text, HasSubstr("Back to turn 8"));
  const auto restarts = records_of(path("disturbed"), "restart");
  ASSERT_EQ(restarts.size(), 1U);
  EXPECT_EQ(restarts[0].number("turn", -1), 8);
  EXPECT_EQ(restarts[0].number("block", -1), 2);
  EXPECT_GE(restarts[0].number("lost_turns", -1), 1);
  expect_undisturbed("disturbed");
}

TEST_F(Restart, BeforeTheFirstCheckpointBeginsAnew) {
  const Outcome outcome = run_with("kill block 3 @ turn 2");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Back to turn 0"));
  expect_undisturbed("disturbed");
}

class RestartAfter : public Faults,
                     public testing::WithParamInterface<const char*> {};

TEST_P(RestartAfter, GivesTheBitsOfTheUndisturbedRun) {
  const Outcome outcome = run_with(GetParam(), "timeout=10");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Restart 1"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("before this could happen")));
  expect_undisturbed("disturbed");
}

INSTANTIATE_TEST_SUITE_P(
    Faults, RestartAfter,
    testing::Values("kill block 2 @ start", "kill block 1 @ evaluation 6",
                    "kill block 3 @ checkpoint 8",
                    "kill block 1 @ turn 20",  // in the drain
                    "kill block 2 @ checkpoint 20",
                    "kill block 3 @ turn 5; kill block 1 @ turn 6",
                    "stop block 2 @ turn 7", "hang block 1 @ turn 7",
                    "corrupt 2->1 @ 7"),
    [](const auto& info) {
      std::string name;
      for (const char c : std::string(info.param))
        if (std::isalnum(static_cast<unsigned char>(c))) name += c;
      return name;
    });

class RestartOver : public Faults,
                    public testing::WithParamInterface<const char*> {};

TEST_P(RestartOver, ATransportGivesTheBitsOfTheUndisturbedRun) {
  const Outcome outcome = run_with("kill block 2 @ turn 6; corrupt 2->1 @ 12",
                                   fmt::format("transport={}", GetParam()));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("of block 2 was ended by signal 9"));
  EXPECT_THAT(outcome.text,
              HasSubstr("Restart 2: block 1: block 1 waited for"));
  EXPECT_THAT(outcome.text, HasSubstr("checksum"));
  expect_undisturbed("disturbed");
}

INSTANTIATE_TEST_SUITE_P(Transports, RestartOver,
                         testing::Values("unix", "tcp", "tls", "shared_memory"),
                         [](const auto& info) { return info.param; });

TEST_F(Restart, RemembersTheEvaluationsThatDecideWhenItEnds) {
  // Evaluations at turns 6, 12, 18, 24: the first is the best for ever.
  const std::string more =
      "turns=60 early_stop.patience=3 optimizer.lr=0 model.batch_norm=false";
  const Outcome outcome = run_with("kill block 2 @ turn 14", more);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(fs::exists(path("disturbed/checkpoints/turn-000024")));
  EXPECT_FALSE(fs::exists(path("disturbed/checkpoints/turn-000028")));
  expect_undisturbed("disturbed", more);
}

TEST_F(Restart, GoesOnInThePhaseOfTheTimetable) {
  const std::string more =
      "'timetable=[{turn=7,boundary={policy=\"local_loss\"}}]'";
  const Outcome outcome = run_with("kill block 3 @ turn 10", more);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Back to turn 8"));
  expect_undisturbed("disturbed", more);
}

TEST_F(Restart, IsGivenUpWhenItComesNoFurther) {
  const Outcome outcome = run_with(
      "kill block 2 @ turn 1; kill block 2 @ turn 1; kill block 2 @ turn 1",
      "restarts=2");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text,
              HasSubstr("2 restarts from the same turn came no further"));
  expect_nothing_left("disturbed");
}

TEST_F(Restart, IsNoAnswerToWhatTheUserCanMend) {
  const Outcome outcome =
      run("disturbed", "on_failure=restart timeout=60 max_staleness=1");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("max_staleness is 1"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("Restart")));
}

constexpr const char* kFree = "schedule=free in_flight=4 ";

/// Which batches a block has applied, as the metrics say, in any order.
std::vector<std::int64_t> applied_by(int block, const std::string& dir) {
  std::vector<std::int64_t> batches;
  for (const Record& record : records_of(dir, "train"))
    if (record.integer("block") == block)
      batches.push_back(record.integer("batch"));
  std::sort(batches.begin(), batches.end());
  return batches;
}

/// Blocks that run free: no undisturbed run has their bits, but the replay of
/// all that they have done, before and after restarts.
class FreeRestart : public Faults,
                    public testing::WithParamInterface<const char*> {
 protected:
  void expect_replayed(std::int64_t window = 1) {
    const std::string dir = path("disturbed");
    const ReplayResult replayed = replay(dir);
    EXPECT_EQ(replayed.difference(), "");
    EXPECT_EQ(replayed.compared.size(), 5U * 3) << "checkpoints 4, 8, ... 20";
    std::vector<std::int64_t> once;
    for (std::int64_t batch = window - 1; batch < 20; batch += window)
      once.push_back(batch);
    for (int block = 1; block <= 3; ++block)
      EXPECT_EQ(applied_by(block, dir), once) << "block " << block;
    const RunPlan plan = {.blocks = std::vector<BlockPlan>(3)};
    for (const auto& actions : read_schedule(schedule_of_run(dir), plan))
      EXPECT_EQ(std::count_if(actions.begin(), actions.end(),
                              [](const Action& action) {
                                return action.op == Op::forward;
                              }),
                20);
    expect_nothing_left("disturbed");
  }
};

TEST_F(FreeRestart, GoesOnWithWhatWasInFlight) {
  const Outcome outcome = run_with("kill block 2 @ turn 10", kFree);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("of block 2 was ended by signal 9"));
  const auto restarts = records_of(path("disturbed"), "restart");
  ASSERT_EQ(restarts.size(), 1U);
  const std::int64_t turn = restarts[0].integer("turn");
  EXPECT_THAT(turn, AnyOf(4, 8));
  // A restart that forgets it can't have the bits of the replay.
  const auto saved = find_checkpoints(path("disturbed/checkpoints"));
  EXPECT_GE(in_flight_in(saved.at(turn)).batches, 1);
  expect_replayed();
}

TEST_P(FreeRestart, HasTheBitsOfItsRecord) {
  const Outcome outcome =
      run_with(GetParam(), std::string(kFree) + "accumulate.batches=3");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Restart 1"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("before this could happen")));
  expect_replayed(3);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, FreeRestart,
    testing::Values("kill block 2 @ start", "kill block 1 @ turn 2",
                    "kill block 1 @ evaluation 6",
                    "kill block 3 @ checkpoint 8", "kill block 1 @ turn 19",
                    "kill block 3 @ turn 5; kill block 1 @ turn 13"),
    [](const auto& info) {
      std::string name;
      for (const char c : std::string(info.param))
        if (std::isalnum(static_cast<unsigned char>(c))) name += c;
      return name;
    });

TEST_F(FreeRestart, GoesOnInThePhaseOfItsTimetable) {
  const Outcome outcome = run_with(
      "kill block 2 @ turn 6; kill block 3 @ turn 13",
      std::string(kFree) +
          "'timetable=[{turn=7,boundary={policy=\"synthetic_gradient\"}}]'");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(records_of(path("disturbed"), "restart").size(), 2U);
  EXPECT_EQ(records_of(path("disturbed"), "phase").size(), 1U);
  expect_replayed();
}

TEST_F(FreeRestart, FreeRestartOfARunThatEndedIsMadeByHand) {
  const Outcome killed = run(
      "disturbed", std::string(kFree) + "--inject 'kill block 2 @ turn 14'");
  EXPECT_EQ(killed.status, 1);
  EXPECT_THAT(killed.text, HasSubstr("sluice run --resume"));
  EXPECT_EQ(replay(path("disturbed")).difference(), "")
      << "the record comes to the last checkpoint";
  const Outcome resumed = sluice("run --resume " + path("disturbed"));
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  expect_replayed();
}

TEST_F(FreeRestart, WithoutWhatItDidBeforeIsRefused) {
  const Outcome outcome = run_with("kill block 2 @ turn 10", kFree);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const std::string record = slurp(path("disturbed/schedule.txt"));
  std::string rest;
  for (std::size_t at = 0; at < record.size();) {
    const std::size_t end = record.find('\n', at);
    const std::size_t saved = record.find("C4", at);
    ASSERT_LT(saved, end);
    rest += record.substr(saved + 2, end + 1 - saved - 2);
    at = end + 1;
  }
  write("disturbed/schedule.txt", rest);
  EXPECT_THROW(replay(path("disturbed")), UserError);
}

/// `count` kills of random blocks at random turns, in the order of turns.
std::string random_kills(int count, std::mt19937& random) {
  std::vector<int> turns;
  for (int i = 0; i < count; ++i)
    turns.push_back(std::uniform_int_distribution(0, 19)(random));
  std::sort(turns.begin(), turns.end());
  std::string text;
  for (const int turn : turns)
    text += fmt::format("kill block {} @ turn {};",
                        std::uniform_int_distribution(1, 3)(random), turn);
  return text;
}

TEST_F(Restart, AfterKillsOfRandomBlocksAtRandomTurnsGivesTheSameBits) {
  constexpr int kKillsOfARun = 10;  // an undisturbed start costs as much
  const unsigned kills = from_environment("SLUICE_KILLS", 30);
  std::mt19937 random(random_seed());
  for (unsigned done = 0; done < kills; done += kKillsOfARun) {
    const std::string faults = random_kills(kKillsOfARun, random);
    SCOPED_TRACE(faults);
    const Outcome outcome = run_with(faults, "restarts=10 --overwrite");
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(records_of(path("disturbed"), "injection").size(), 10U);
    // All three may die before the run has noticed the first.
    EXPECT_GE(records_of(path("disturbed"), "restart").size(), 4U);
    expect_undisturbed("disturbed");
  }
}

/// Kills a worker of the run at an arbitrary moment.
void kill_one(const std::string& dir, int block, milliseconds after) {
  for (int tries = 0; tries < 3000; ++tries) {
    if (const int pid = worker_of(dir, block)) {
      std::this_thread::sleep_for(after);
      ::kill(pid, SIGKILL);
      return;
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
}

TEST_F(Restart, AfterKillsAtRandomMomentsGivesTheSameBits) {
  constexpr int kKills = 5;
  std::thread killer([&, random = std::mt19937(random_seed())]() mutable {
    for (int i = 0; i < kKills; ++i)
      kill_one(path("disturbed"), std::uniform_int_distribution(1, 3)(random),
               milliseconds(std::uniform_int_distribution(0, 700)(random)));
  });
  // So slow that the first kill comes in time.
  const Outcome outcome =
      run("disturbed",
          "on_failure=restart restarts=10 turns=40 --inject 'delay 1->2 50ms'");
  killer.join();
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_FALSE(records_of(path("disturbed"), "restart").empty());
  expect_undisturbed("disturbed", "turns=40");
}

}  // namespace sluice::restart_test
