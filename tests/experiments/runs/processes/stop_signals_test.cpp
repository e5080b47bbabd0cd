// A signal to all processes of a run, as a terminal or `timeout` sends it: the
// launcher alone decides, and saves. Issue 18, item 8.
#include "experiments/runs/processes/stop_signals.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/process_group.h"

namespace sluice::stop_signals_test {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

/// So slow that the end doesn't come before the signal.
constexpr const char* kSlow = "--inject 'slow block 1 x20;delay 1->2 200ms'";

class StopSignal : public Faults {
 protected:
  std::string line(const std::string& dir, const std::string& more) {
    return fmt::format("{} {}", SLUICE_PROGRAM, command(dir, more));
  }
  std::string output() const { return path("output"); }

  /// The process of the worker, once it is there: long before its main().
  int await_worker(const std::string& dir, int block) const {
    for (int tries = 0; tries < 30'000; ++tries) {
      if (const int pid = worker_of(path(dir), block)) return pid;
      std::this_thread::sleep_for(milliseconds(1));
    }
    ADD_FAILURE() << dir << " has no worker of block " << block;
    return 0;
  }
  void await_checkpoint(const std::string& dir) const {
    for (int tries = 0; tries < 6000; ++tries) {
      if (!find_checkpoints(path(dir) + "/checkpoints").empty()) return;
      std::this_thread::sleep_for(milliseconds(10));
    }
    ADD_FAILURE() << dir << " has no checkpoint";
  }

  void expect_stopped(const std::string& dir) {
    EXPECT_THAT(slurp(output()), HasSubstr("To continue: sluice run --resume"));
    EXPECT_THAT(slurp(output()), Not(HasSubstr("was ended by signal")));
    EXPECT_FALSE(fs::exists(path(dir) + "/done"));
    expect_nothing_left(dir);
    const Outcome resumed = sluice("run --resume " + path(dir));
    ASSERT_EQ(resumed.status, 0) << resumed.text;
    expect_undisturbed(dir);
  }
};

// `timeout` sends the signal to the launcher, and then to the group, the
// launcher once more: 3 of 3 were killed.
TEST_F(StopSignal, StopSignalOfTimeoutSavesACheckpoint) {
  ProcessGroup group("timeout 600 " + line("ended", kSlow), output());
  await_checkpoint("ended");
  group.signal_leader(SIGTERM);
  EXPECT_EQ(group.wait(), 0) << slurp(output());
  expect_stopped("ended");
}

// In the first 0.6 s, 2 of 4 lost their workers.
TEST_F(StopSignal, StopSignalOfATerminalWhileWorkersStartSavesACheckpoint) {
  ProcessGroup group(line("ended", kSlow), output());
  await_worker("ended", 3);
  group.signal(SIGINT);
  EXPECT_EQ(group.wait(), 0) << slurp(output());
  expect_stopped("ended");
}

// SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU ended a run at once, without a
// checkpoint, and its status was "running". Issue 55, item 12.
class SignalOfAScheduler : public StopSignal,
                           public testing::WithParamInterface<int> {};

TEST_P(SignalOfAScheduler, SavesACheckpointHoweverOftenItComes) {
  ProcessGroup group(line("ended", kSlow), output());
  await_checkpoint("ended");
  group.signal(GetParam());
  std::this_thread::sleep_for(milliseconds(1200));
  group.signal(GetParam());  // a second later: still no end at once
  EXPECT_EQ(group.wait(), 0) << slurp(output());
  EXPECT_THAT(slurp(path("ended/status.json")), HasSubstr("\"stopped\""));
  expect_stopped("ended");
}

INSTANTIATE_TEST_SUITE_P(Kinds, SignalOfAScheduler,
                         testing::Values(SIGHUP, SIGUSR1, SIGXCPU),
                         [](const auto& info) {
                           return std::string(::sigabbrev_np(info.param));
                         });

TEST_F(StopSignal, StopSignalOfSchedulersToOneWorkerMeansNothing) {
  ProcessGroup group(line("ended", "--inject 'delay 1->2 20ms'"), output());
  const int worker = await_worker("ended", 2);
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGHUP);
  await_checkpoint("ended");
  for (const int number : {SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE})
    ::kill(worker, number);
  EXPECT_EQ(group.wait(), 0) << slurp(output());
  expect_undisturbed("ended");
}

// A limit of seconds holds for each process: it was killed a second later.
TEST_F(StopSignal, StopSignalOfAWorkersLimitOfProcessorTimeSavesTheRun) {
  ProcessGroup group(line("ended", kSlow), output());
  await_checkpoint("ended");
  const int worker = await_worker("ended", 2);
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGXCPU);
  EXPECT_EQ(group.wait(), 0) << slurp(output());
  expect_stopped("ended");
}

TEST_F(StopSignal, StopSignalOfAClosedTerminalMeansNothingUnderNohup) {
  ProcessGroup group("nohup " + line("ended", "--inject 'delay 1->2 20ms'"),
                     output());
  await_checkpoint("ended");
  group.signal(SIGHUP);
  EXPECT_EQ(group.wait(), 0) << slurp(output());
  expect_undisturbed("ended");
}

TEST_F(StopSignal, ThatIsUrgentEndsARunAtOnceTheSecondTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        StopSignals signals;
        signals.on_stop([] { fmt::print(stderr, "stops "); });
        for (const int number : {SIGUSR1, SIGUSR1, SIGTERM}) {
          ::kill(::getpid(), number);
          std::this_thread::sleep_for(milliseconds(1200));
        }
        fmt::print(stderr, "runs ");
        ::kill(::getpid(), SIGTERM);
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      testing::ExitedWithCode(kInterruptedStatus), "stops (.|\n)*runs ");
}

TEST_F(StopSignal, ToAWorkerAloneMeansNothing) {
  ProcessGroup group(line("ended", "--inject 'delay 1->2 20ms'"), output());
  const int worker = await_worker("ended", 2);
  ASSERT_GT(worker, 0);
  ::kill(worker, SIGTERM);
  await_checkpoint("ended");
  ::kill(worker, SIGTERM);
  ::kill(worker, SIGINT);
  EXPECT_EQ(group.wait(), 0) << slurp(output());
  expect_undisturbed("ended");
}

TEST_F(StopSignal, ThatComesAgainLaterEndsTheRunAtOnce) {
  ProcessGroup group(line("ended", "--inject 'hang block 2 @ turn 2'"),
                     output());
  const auto has_begun = [&] {
    return slurp(path("ended/metrics.jsonl")).find("train") !=
           std::string::npos;
  };
  for (int tries = 0; tries < 6000 && !has_begun(); ++tries)
    std::this_thread::sleep_for(milliseconds(10));
  group.signal(SIGTERM);
  std::this_thread::sleep_for(milliseconds(2500));
  group.signal(SIGTERM);
  EXPECT_EQ(group.wait(), 130);
}

/// Signals at random moments, and --resume, until the run is done.
// A process that ended while it made a temporary folder left one that
// looked like one in use.
TEST(StopSignals, WaitWhileTheyAreHeld) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        StopSignals signals;
        {
          const auto held = signals.hold();
          ::kill(::getpid(), SIGTERM);
          std::this_thread::sleep_for(milliseconds(300));
          fmt::print(stderr, "done");
        }
        std::this_thread::sleep_for(std::chrono::seconds(20));
      },
      testing::ExitedWithCode(kInterruptedStatus), "done");
}

class RandomStops : public StopSignal {
 protected:
  /// How long a run takes here.
  milliseconds measure(const std::string& more) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(run("measured", more).status, 0);
    return std::chrono::duration_cast<milliseconds>(
        std::chrono::steady_clock::now() - start);
  }

  /// Whether the run came to its end before the signal.
  bool start_and_stop(const std::string& start, milliseconds after,
                      int number) {
    fs::remove(output());
    ProcessGroup group(start, output());
    std::this_thread::sleep_for(after);
    group.signal_leader(number);
    group.signal(number);
    const int status = group.wait();
    const bool has_begun = fs::exists(path("ended"));
    const bool was_early = status == 130 || status == 128 + number;
    EXPECT_TRUE(status == 0 || was_early) << status << slurp(output());
    // What has been written can be gone on with.
    const bool is_saved = fs::exists(path("ended/done")) ||
                          !find_checkpoints(path("ended/checkpoints")).empty();
    EXPECT_TRUE(!has_begun || is_saved);
    return fs::exists(path("ended/done"));
  }
};

TEST_F(RandomStops, AndResumesGiveTheBitsOfTheUndisturbedRun) {
  const unsigned rounds = from_environment("SLUICE_STOPS", 4);
  std::mt19937 random(random_seed());
  const std::string more = "--inject 'delay 1->2 20ms'";
  const auto whole = static_cast<int>(measure(more).count());
  run_undisturbed();
  const auto started = std::chrono::steady_clock::now();
  int stopped = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    // One of them surely before its end, though `whole` was long.
    const int most = round == 0 ? whole / 4 : whole;
    const int after = std::uniform_int_distribution(0, most)(random);
    const int number =
        std::uniform_int_distribution(0, 1)(random) == 0 ? SIGTERM : SIGINT;
    SCOPED_TRACE(fmt::format("round {}: signal {} after {} ms of {}", round,
                             number, after, whole));
    fs::remove_all(path("ended"));
    bool done =
        start_and_stop(line("ended", more), milliseconds(after), number);
    if (!done) {
      ++stopped;
      const bool has_begun = fs::exists(path("ended"));
      const Outcome rest = has_begun ? sluice("run --resume " + path("ended"))
                                     : run("ended", "");
      ASSERT_EQ(rest.status, 0) << rest.text;
    }
    expect_as_undisturbed("ended");
    if (HasFailure()) return;
  }
  fmt::print(
      "{} rounds, {} of them stopped, in {:.0f} s\n", rounds, stopped,
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started)
          .count());
  EXPECT_GT(stopped, 0);
}

}  // namespace sluice::stop_signals_test
