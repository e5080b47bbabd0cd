// Issue 18, item 2: one process at a time works in a run's folder.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/files/lock_holder.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::run_lock_test {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* kQuick = "engine=virtual";

/// How often each pair of commands is started at once: SLUICE_STARTS.
int rounds() {
  const char* const given = std::getenv("SLUICE_STARTS");
  return given != nullptr ? std::stoi(given) : 3;
}

/// What two commands of ours said that were started in the same instant.
struct Two {
  Outcome first;
  Outcome second;
  const Outcome& refused() const { return first.status == 0 ? second : first; }
};

class RunLock : public Faults {
 protected:
  Two at_once(const std::string& first, const std::string& second) {
    const auto one = [&](const std::string& command, int number) {
      return fmt::format("({0} {1} >{2}.{3} 2>&1; echo $? >{2}.{3}.status)&",
                         SLUICE_PROGRAM, command, path("out"), number);
    };
    shell(one(first, 1) + one(second, 2) + " wait");
    return {outcome(1), outcome(2)};
  }

  /// Starts a command that goes on; its process.
  int start(const std::string& arguments) {
    return std::stoi(shell(fmt::format("{} {} >{} 2>&1 & echo $!",
                                       SLUICE_PROGRAM, arguments, path("log")))
                         .text);
  }

  /// A run that was killed after turn 8.
  void make_part() {
    ASSERT_EQ(run("part", kQuick).status, 0);
    fs::remove(path("part/done"));
    for (const auto& [turn, saved] : find_checkpoints(path("part/checkpoints")))
      if (turn > 8) fs::remove_all(saved);
    ASSERT_FALSE(find_checkpoints(path("part/checkpoints")).empty());
  }

  void expect_same(const std::string& left, const std::string& right) {
    EXPECT_EQ(difference(weights_at_end(left), weights_at_end(right)), "");
    EXPECT_EQ(slurp(path(left) + "/config.toml"),
              slurp(path(right) + "/config.toml"));
    for (const char* kind : {"train", "evaluation"})
      EXPECT_EQ(records_of(path(left), kind).size(),
                records_of(path(right), kind).size());
    EXPECT_TRUE(fs::exists(path(right) + "/done"));
    EXPECT_FALSE(fs::exists(path(right) + "/lock"));
  }

 private:
  Outcome outcome(int number) {
    const std::string said = fmt::format("{}.{}", path("out"), number);
    return {std::stoi(slurp(said + ".status")), slurp(said)};
  }
};

void expect_one_line(const std::string& text) {
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(RunLock, OneOfTwoStartsInOneFolderIsRefusedTheOtherUndisturbed) {
  ASSERT_EQ(run("whole-1", "engine=virtual seed=1").status, 0);
  ASSERT_EQ(run("whole-2", "engine=virtual seed=2").status, 0);
  ASSERT_NE(difference(weights_at_end("whole-1"), weights_at_end("whole-2")),
            "");
  for (int round = 0; round < rounds(); ++round) {
    SCOPED_TRACE(round);
    const Two two = at_once(command("both", "engine=virtual seed=1"),
                            command("both", "engine=virtual seed=2"));
    ASSERT_EQ(two.first.status + two.second.status, 2)
        << two.first.text << two.second.text;
    EXPECT_EQ(two.refused().status, 2);
    EXPECT_THAT(two.refused().text,
                AnyOf(HasSubstr("another process works there (process "),
                      HasSubstr("holds a run already")));
    expect_one_line(two.refused().text);
    expect_same(two.first.status == 0 ? "whole-1" : "whole-2", "both");
    fs::remove_all(path("both"));
  }
}

TEST_F(RunLock, TwoStartsWithoutAFolderGetOneEach) {
  fs::create_directories(path("here"));
  const std::string before = fs::current_path();
  for (int round = 0; round < rounds(); ++round) {
    SCOPED_TRACE(round);
    fs::current_path(path("here"));
    const std::string start =
        fmt::format("run {} engine=virtual name=twin", config_);
    const Two two = at_once(start, start);
    fs::current_path(before);
    EXPECT_EQ(two.first.status, 0) << two.first.text;
    EXPECT_EQ(two.second.status, 0) << two.second.text;
    expect_same("here/runs/twin-1", "here/runs/twin-2");
    fs::remove_all(path("here/runs"));
  }
}

TEST_F(RunLock, OneOfTwoThatContinueARunIsRefused) {
  ASSERT_EQ(run("whole", kQuick).status, 0);
  make_part();
  for (int round = 0; round < rounds(); ++round) {
    SCOPED_TRACE(round);
    fs::copy(path("part"), path("both"), fs::copy_options::recursive);
    const std::string resume = "run --resume " + path("both");
    const Two two = at_once(resume, resume);
    ASSERT_EQ(two.first.status + two.second.status, 2)
        << two.first.text << two.second.text;
    EXPECT_EQ(two.refused().status, 2);
    EXPECT_THAT(two.refused().text,
                AnyOf(HasSubstr("another process works there (process "),
                      HasSubstr("all its 20 turns are done")));
    expect_same("whole", "both");
    fs::remove_all(path("both"));
  }
}

/// A run that comes to no end.
class LiveRun : public RunLock {
 protected:
  void SetUp() override {
    pid_ = start(command("live",
                         "engine=virtual turns=10000000 "
                         "'checkpoint={every_turns=400,keep=20}'"));
    for (int tries = 0; tries < 6000; ++tries) {
      if (!find_checkpoints(path("live/checkpoints")).empty() &&
          fs::exists(path("live/status.json")))
        return;
      std::this_thread::sleep_for(milliseconds(10));
    }
    FAIL() << slurp(path("log"));
  }
  ~LiveRun() override {
    end();
    // The process writes there; without a parent that reaps it, it stays.
    for (int i = 0; i < 500 && pid_ != 0 && ::kill(pid_, 0) == 0; ++i)
      std::this_thread::sleep_for(milliseconds(10));
  }
  void end() {
    if (pid_ != 0) ::kill(pid_, SIGKILL);
  }

  int pid_ = 0;
};

TEST_F(LiveRun, IsNeitherContinuedNorReplacedNorDrained) {
  const std::string config = slurp(path("live/config.toml"));
  for (const std::string& command :
       {"run --resume " + path("live"), command("live", "--overwrite"),
        command("live", ""), "checkpoint --drain " + path("live")}) {
    const Outcome outcome = sluice(command);
    EXPECT_EQ(outcome.status, 2) << command;
    EXPECT_THAT(outcome.text,
                HasSubstr(fmt::format(
                    "another process works there (process {} on host", pid_)));
    expect_one_line(outcome.text);
  }
  EXPECT_EQ(slurp(path("live/config.toml")), config);
  EXPECT_EQ(::kill(pid_, 0), 0);
}

TEST_F(LiveRun, IsReadByAnybody) {
  EXPECT_EQ(sluice("checkpoint " + path("live")).status, 0);
  const Outcome watched = sluice("watch --once " + path("live"));
  EXPECT_EQ(watched.status, 0);
  EXPECT_THAT(watched.text, HasSubstr("running"));
}

// A resume that doesn't wait for the end of what was killed.
TEST_F(LiveRun, ThatIsKilledIsContinuedAtOnce) {
  end();
  const auto saved = find_checkpoints(path("live/checkpoints")).rbegin()->first;
  // The process may save one more before it is gone.
  const Outcome resumed = sluice(
      fmt::format("run --resume {} turns={}", path("live"), saved + 200));
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_TRUE(fs::exists(path("live/done")));
  EXPECT_FALSE(fs::exists(path("live/lock")));
}

// Issue 18, item 12.
TEST_F(LiveRun, ThatIsKilledIsSeenToBeDead) {
  end();
  const Outcome watched = sluice("watch " + path("live"));
  EXPECT_EQ(watched.status, 0);
  EXPECT_THAT(watched.text, HasSubstr("died"));
  EXPECT_THAT(watched.text, HasSubstr(fmt::format("process {} on host", pid_)));
  EXPECT_THAT(watched.text, HasSubstr("is no longer there"));
  EXPECT_THAT(sluice("watch --once " + path("live")).text, HasSubstr("died"));
}

TEST_F(RunLock, LockOfAnotherHostIsRespectedWhileItsHeartbeatIsFresh) {
  ASSERT_EQ(run("whole", kQuick).status, 0);
  make_part();
  LockHolder other = this_holder();
  other.host = "another.example";
  other.boot = "0";
  const std::string metrics = slurp(path("part/metrics.jsonl"));
  const std::string resume = "run --resume " + path("part");
  std::ofstream(path("part/lock")) << to_text(other);
  const Outcome refused = sluice(resume);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("on host another.example"));
  expect_one_line(refused.text);
  EXPECT_EQ(slurp(path("part/metrics.jsonl")), metrics);

  other.heartbeat -= 3600;
  std::ofstream(path("part/lock")) << to_text(other);
  const Outcome taken = sluice(resume);
  EXPECT_EQ(taken.status, 0) << taken.text;
  EXPECT_THAT(taken.text, HasSubstr("is taken for dead"));
  expect_same("whole", "part");
}

}  // namespace sluice::run_lock_test
