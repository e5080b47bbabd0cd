// Faults end a run with an error that names the culprit, and what it had saved
// can be gone on with.
#include "tests/experiments/helpers/faults.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/checkpoints/checkpoint.h"

namespace sluice::faults_test {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(Faults, AKillEndsARunThatShallStopAndNamesTheBlock) {
  const Outcome outcome =
      run("stopped", "--inject 'kill block 2 @ turn 10' on_failure=stop");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("of block 2 was ended by signal 9"),
                    HasSubstr("to continue after turn 8: sluice run --resume"),
                    Not(HasSubstr("Restart"))));
  EXPECT_FALSE(fs::exists(path("stopped") + "/done"));
  ASSERT_EQ(sluice("run --resume " + path("stopped")).status, 0);
  expect_undisturbed("stopped");
}

TEST_F(Faults, AStoppedWorkerIsNamedNotOneThatWaitsForIt) {
  const Outcome outcome =
      run("stopped", "--inject 'stop block 2 @ turn 3' timeout=10");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("of block 2 hangs"), HasSubstr("silent"),
                    Not(HasSubstr("timeout is"))));
  expect_nothing_left("stopped");
}

TEST_F(Faults, AWorkerThatGetsNowhereIsNamedNotOneThatWaitsForIt) {
  const Outcome outcome =
      run("stopped", "--inject 'hang block 3 @ turn 3' timeout=10");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("of block 3 hangs"),
                                  HasSubstr("made no progress"),
                                  HasSubstr("timeout is 10 s: set it above")));
  expect_nothing_left("stopped");
}

// Block 1 waits for 3.6 s for block 2, which waits for block 3: no wait is a
// hang while messages are under way.
TEST_F(Faults, AWaitMayTakeLongerThanTheTimeout) {
  const Outcome outcome =
      run("slow",
          "--inject 'delay 2->3 1.8s; delay 3->2 1.8s' timeout=3 turns=1 "
          "transport=shared_memory boundary.policy=backprop evaluate_every=0 "
          "checkpoint.every_turns=0");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
}

TEST_F(Faults, BlocksThatAllWaitForEachOtherAreNamed) {
  const Outcome outcome =
      run("stopped", "--inject 'delay 2->3 3600s' timeout=3 turns=1");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text, HasSubstr("block 3 for block 2"));
  expect_nothing_left("stopped");
}

TEST_F(Faults, ACorruptedFrameIsFoundByItsChecksum) {
  for (const char* transport : {"unix", "tcp", "tls"}) {
    const Outcome outcome =
        run("stopped", fmt::format("--overwrite --inject 'corrupt 2->1 @ 5' "
                                   "on_failure=stop transport={}",
                                   transport));
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.text,
                AllOf(HasSubstr("block 1 waited for"), HasSubstr("checksum")));
  }
}

// The corruption ends the connection; the next one brings the frame unharmed.
TEST_F(Faults, WithReconnectACorruptedFrameIsSentAgain) {
  for (const char* transport : {"tcp", "tls"}) {
    const Outcome outcome = run(
        "mended",
        fmt::format("--overwrite --inject 'corrupt 2->1 @ 5; corrupt 1->2 @ 9' "
                    "reconnect=60 transport={}",
                    transport));
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(records_of(path("mended"), "injection").size(), 2U);
    expect_undisturbed("mended");
  }
}

TEST_F(Faults, WithReconnectAKilledWorkerIsMissedALittleLater) {
  const Outcome outcome =
      run_with("kill block 2 @ turn 10", "reconnect=5 transport=tcp");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto restarts = records_of(path("disturbed"), "restart");
  ASSERT_EQ(restarts.size(), 1U);
  EXPECT_GE(restarts[0].number("lost_seconds", 0), 5);
  expect_undisturbed("disturbed");
}

TEST_F(Faults, DelaysAndSlownessChangeTimesAndNoNumber) {
  const Outcome outcome =
      run("slow", "--inject 'delay 1->2 20ms; slow block 3 x3'");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto costs = records_of(path("slow"), "block");
  // 20 forwards of block 1 and 80 ms more for evaluations arrive late, some of
  // them side by side.
  ASSERT_EQ(costs.size(), 3U);
  EXPECT_GT(costs[1].number("waiting_s", 0), 0.02);
  expect_undisturbed("slow");
}

// The block above sends its last gradients when the block below, which has no
// use for them, could long be gone.
TEST_F(Faults, WhatStaysInFlightMayBeSentAfterItsTakerHasFinished) {
  for (const char* transport : {"unix", "shared_memory"}) {
    const std::string more =
        fmt::format("drain=false evaluate_every=0 transport={}", transport);
    const Outcome outcome =
        run("slow", "--overwrite --inject 'delay 3->2 100ms' " + more);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
    expect_undisturbed("slow", more);
  }
}

TEST_F(Faults, ACheckpointThatFailsLeavesTheLastGoodOneAndNamesTheFile) {
  const Outcome outcome =
      run("full", "--inject 'fail checkpoint @ turn 8' on_failure=restart");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("turn-000008.partial/block-1.safetensors: can't "
                              "be written: File too large"),
                    Not(HasSubstr("Restart"))));
  EXPECT_EQ(find_checkpoints(path("full") + "/checkpoints").rbegin()->first, 4);
  const Outcome resumed = sluice("run --resume " + path("full"));
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  expect_undisturbed("full");
}

TEST_F(Faults, WhatCouldNotHappenIsSaid) {
  const Outcome outcome = run("calm", "--inject 'kill block 1 @ turn 99'");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text,
              HasSubstr("before this could happen: kill block 1 @ turn 99"));
}

TEST_F(Faults, AreExplainedByHelp) {
  const Outcome help = sluice("help inject");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.text, HasSubstr("corrupt A->B @ TURN"));
}

/// The run as a process of its own.
class Launcher {
 public:
  explicit Launcher(const std::string& command) {
    pid_ = ::fork();
    if (pid_ == 0) {
      const std::string line =
          std::string("exec ") + SLUICE_PROGRAM + " " + command + " >/dev/null";
      ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      std::_Exit(127);
    }
  }
  ~Launcher() { end_with(SIGKILL); }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// The status that waitpid() gives.
  int end_with(int signal) {
    if (pid_ == 0) return 0;
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
};

/// Waits until the run has saved a checkpoint.
void wait_for_checkpoint(const std::string& dir) {
  for (int tries = 0; tries < 6000; ++tries) {
    if (!find_checkpoints(dir + "/checkpoints").empty()) return;
    std::this_thread::sleep_for(milliseconds(10));
  }
  FAIL() << dir << " has no checkpoint";
}

/// Killed processes are gone a moment later.
void wait_for_end(const std::string& dir) {
  for (int tries = 0; tries < 500 && !processes_with(dir).empty(); ++tries)
    std::this_thread::sleep_for(milliseconds(10));
}

/// So slow that the end doesn't come before the signal.
constexpr const char* kSlow = "--inject 'slow block 1 x20;delay 1->2 200ms'";

TEST_F(Faults, AKilledLauncherTakesItsWorkersAlongAndCanBeContinued) {
  Launcher launcher(command("killed", kSlow));
  wait_for_checkpoint(path("killed"));
  launcher.end_with(SIGKILL);
  wait_for_end(path("killed"));
  EXPECT_EQ(processes_with(path("killed")), std::vector<int>());
  EXPECT_TRUE(fs::is_empty(sockets_));
  EXPECT_FALSE(fs::exists(path("killed") + "/done"));
  const Outcome resumed = sluice("run --resume " + path("killed"));
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  expect_undisturbed("killed");
}

TEST_F(Faults, ATerminatedLauncherSavesACheckpointAndCanBeContinued) {
  Launcher launcher(command("ended", kSlow));
  wait_for_checkpoint(path("ended"));
  EXPECT_EQ(launcher.end_with(SIGTERM), 0);
  expect_nothing_left("ended");
  EXPECT_FALSE(fs::exists(path("ended") + "/done"));
  const Outcome resumed = sluice("run --resume " + path("ended"));
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  expect_undisturbed("ended");
}

// A user who stops a run wants no restart.
TEST_F(Faults, AWorkerLostWhileTheRunIsStoppedIsNotReplaced) {
  Launcher launcher(
      command("lost",
              "--inject 'slow block 1 x20; delay 1->2 200ms; kill "
              "block 2 @ checkpoint 5' on_failure=restart 2>" +
                  path("errors")));
  wait_for_checkpoint(path("lost"));
  EXPECT_EQ(WEXITSTATUS(launcher.end_with(SIGTERM)), 1);
  EXPECT_THAT(slurp(path("errors")),
              AllOf(HasSubstr("of block 2 was ended by signal 9"),
                    HasSubstr("to continue after turn 4: sluice run "
                              "--resume")));
  EXPECT_TRUE(records_of(path("lost"), "restart").empty());
}

/// Runs a script as the root of a file system namespace of its own; -1 where
/// that isn't allowed.
Outcome with_mounts(const std::string& script) {
  const std::string prefix = "unshare --mount --map-root-user sh -c '";
  if (std::system("unshare --mount --map-root-user true 2>/dev/null") != 0)
    return {-1, ""};
  Outcome outcome;
  FILE* pipe = ::popen((prefix + script + "' 2>&1").c_str(), "r");
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;)
    outcome.text += static_cast<char>(c);
  outcome.status = WEXITSTATUS(::pclose(pipe));
  return outcome;
}

TEST_F(Faults, OnAFullDiskTheLastGoodCheckpointSurvives) {
  fs::create_directories(path("disk"));
  // Room for a few checkpoints, none of which is removed.
  const Outcome outcome = with_mounts(fmt::format(
      "mount -t tmpfs -o size=600k tmpfs {0} && cd {0} && {1} run {2} --dir "
      "{0}/run turns=4000; {1} eval {0}/run && echo survived",
      path("disk"), SLUICE_PROGRAM, config_));
  if (outcome.status == -1) GTEST_SKIP() << "no file system can be mounted";
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("No space left on device"),
                    HasSubstr(path("disk") + "/run/"), HasSubstr("survived")));
}

TEST_F(Faults, InAReadOnlyFolderTheLastGoodCheckpointSurvives) {
  ASSERT_EQ(run("run", "--inject 'kill block 2 @ turn 10'").status, 1);
  const Outcome outcome = with_mounts(fmt::format(
      "mount --bind {0}/run/checkpoints {0}/run/checkpoints && mount -o "
      "remount,ro,bind {0}/run/checkpoints && {1} run --resume {0}/run",
      folder_, SLUICE_PROGRAM));
  if (outcome.status == -1) GTEST_SKIP() << "no file system can be mounted";
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("turn-000012.partial"),
                                  HasSubstr("Read-only file system")));
  const Outcome resumed = sluice("run --resume " + path("run"));
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  expect_undisturbed("run");
}

}  // namespace sluice::faults_test
