// `sluice sweep --launcher slurm`, with a Slurm of the test's own.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/experiments/sweep/sweeps.h"

namespace sluice::sweep::sweep_slurm_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// What needs no Slurm.
class SlurmOptions : public SluiceSweeps {};

TEST_F(SlurmOptions, WithoutSbatchAreOneClearError) {
  const Outcome outcome =
      shell(fmt::format("PATH=/nonexistent {} {}", SLUICE_PROGRAM,
                        command("optimizer.lr=0.1,0.01 --launcher slurm "
                                "--no-wait 2>&1 | /usr/bin/tail -n 1",
                                "out")));
  EXPECT_THAT(outcome.text,
              HasSubstr("PATH has no sbatch; run it where Slurm is"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(SlurmOptions, ThatSluiceSetsItselfAreRefused) {
  for (const char* option : {"--array=1-9", "-o log", "--wrap=ls"}) {
    const Outcome outcome =
        sweep(fmt::format("--launcher slurm --slurm '{}'", option));
    EXPECT_EQ(outcome.status, kWrong);
    EXPECT_THAT(outcome.text, HasSubstr("is set by sluice sweep itself"));
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1);
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(SlurmOptions, AreNotForTheLocalLauncher) {
  const Outcome outcome = sweep("--slurm=--time=1");
  EXPECT_EQ(outcome.status, kWrong);
  EXPECT_THAT(outcome.text, HasSubstr("are for --launcher slurm"));
}

TEST_F(SlurmOptions, HalvingWantsASweepThatWaits) {
  const Outcome outcome = sweep(
      "optimizer.lr=0.1,0.01 evaluate_every=1 --launcher slurm --no-wait "
      "'sweep.halving={rungs=[1]}'");
  EXPECT_EQ(outcome.status, kWrong);
  EXPECT_THAT(outcome.text, HasSubstr("leave out --no-wait"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(SlurmOptions, ATaskThatNoSweepKnowsOfDoesNothing) {
  fs::create_directories(path("out/slurm/array-1"));
  write("out/slurm/array-1/tasks.json",
        R"({"command": "", "retry": false, "again": false, "tasks": [
            {"cell": "001", "folder": "cells/001", "label": "all", "seed": 1,
             "rung": 0.0, "config": "turns = 1"}]})");
  write("out/slurm/array-1/job", "12\n");
  const Outcome other = sluice(fmt::format(
      "task-of-sweep --array {} --task 1 --job 13", path("out/slurm/array-1")));
  EXPECT_EQ(other.status, kWrong);
  EXPECT_THAT(other.text, HasSubstr("is not of job 13"));
  EXPECT_FALSE(fs::exists(path("out/cells")));
}

TEST_F(SlurmOptions, AnArrayThatMayBeInAQueueKeepsLocalSweepsAway) {
  fs::create_directories(path("out/slurm/array-1"));
  write("out/slurm/array-1/job", "12\n");
  const Outcome outcome = shell(fmt::format(
      "PATH=/nonexistent {} {}", SLUICE_PROGRAM, command("", "out")));
  EXPECT_EQ(outcome.status, kWrong);
  EXPECT_THAT(outcome.text, HasSubstr("jobs of Slurm may still work there"));
  EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1);
}

/// Four cells, the first of which fails.
constexpr const char* kFour =
    "max_staleness=0 evaluate_every=1 "
    "'boundary={policy=\"delayed_gradient\"},{policy=\"backprop\"}' "
    "'optimizer.lr=0.1,0.05,0.01 if boundary.policy=backprop'";
/// So long that the end doesn't come before what is done to them.
constexpr const char* kLonger = "turns=8000 evaluate_every=100";
constexpr const char* kFirst = "cells/001-delayed_gradient/seed-1";
constexpr const char* kLast = "cells/004-backprop-0.01/seed-1";

class SlurmSweeps : public SluiceSweeps {
 protected:
  static constexpr int kNoSlurm = 77;

  void SetUp() override {
    for (const char* program : {"slurmctld", "slurmd"})
      if (std::system(fmt::format("command -v {} >/dev/null", program).c_str()))
        GTEST_SKIP() << "no Slurm";
    if (::getuid() != 0) GTEST_SKIP() << "only root can start a Slurm";
  }

  /// Runs the lines with a Slurm of their own, in which `sweep OPTIONS` does
  /// `arguments` in the folder "slurm"; each prints its status too.
  Outcome with_slurm(const std::string& arguments, const std::string& lines) {
    const std::string script =
        write("script.sh",
              fmt::format(
                  "cd {}\nsweep() {{\n  {} {} \"$@\"\n"
                  "  echo \"status $?\"\n}}\n"
                  "job_of() {{ cat slurm/slurm/array-$1/job; }}\n"
                  "wait_for_file() {{ until [ -s \"$1\" ]; do sleep 0.1; "
                  "done; }}\n"
                  "wait_for_end() {{ while [ -n \"$(squeue -h)\" ]; do "
                  "sleep 0.1; done; }}\n{}",
                  folder_, SLUICE_PROGRAM, command(arguments, "slurm"), lines));
    return shell(fmt::format("{}/experiments/helpers/with_slurm bash {}",
                             SLUICE_TEST_FOLDER, script));
  }

  /// The folder "slurm" has the numbers and the failures of "local".
  void expect_numbers_of_local() const {
    const auto local = numbers_of("local");
    EXPECT_FALSE(local.empty());
    for (const auto& [name, numbers] : local)
      EXPECT_EQ(numbers_of("slurm")[name], numbers) << name;
    EXPECT_EQ(slurp(path("slurm/sweep.json")), slurp(path("local/sweep.json")));
  }
};

TEST_F(SlurmSweeps, EndWithTheNumbersOfLocalOnes) {
  const Outcome local = sweep(kFour, "local");
  ASSERT_EQ(local.status, kSomeFailed) << local.text;
  const Outcome outcome = with_slurm(
      kFour,
      "sweep --launcher slurm --jobs 2 --slurm '--time=10 --cpus-per-task=1'\n"
      "sweep --launcher slurm\nsweep\n");
  if (outcome.status == kNoSlurm) GTEST_SKIP() << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("with 4 tasks"));
  EXPECT_THAT(outcome.text, HasSubstr("3 of 4 runs done, 1 failed"));
  EXPECT_THAT(outcome.text, HasSubstr("status 3"));
  EXPECT_THAT(outcome.text, HasSubstr("3 done, 0 to continue, 1 failed"));
  expect_numbers_of_local();
  EXPECT_EQ(slurp(path(fmt::format("slurm/{}.failed", kFirst))),
            slurp(path(fmt::format("local/{}.failed", kFirst))));
  // What was done was not submitted again.
  EXPECT_FALSE(fs::exists(path("slurm/slurm/array-2")));
  const std::string script = slurp(path("slurm/slurm/array-1/job.sh"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --time=10 --cpus-per-task=1\n"));
}

TEST_F(SlurmSweeps, CancelledTheyGoOnToTheSameNumbers) {
  const std::string longer = fmt::format("{} {}", kFour, kLonger);
  ASSERT_EQ(sweep(longer, "local").status, kSomeFailed);
  const Outcome outcome = with_slurm(
      longer, fmt::format("sweep --launcher slurm --no-wait\n"
                          "wait_for_file slurm/{}/metrics.jsonl\n"
                          "scancel $(job_of 1)\nwait_for_end\n"
                          "echo left $(ls slurm/cells/*/*/done | wc -l)\n"
                          "sweep --launcher slurm\n",
                          kLast));
  if (outcome.status == kNoSlurm) GTEST_SKIP() << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("waits for them.\nstatus 0"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("left 3")));
  EXPECT_THAT(outcome.text, Not(HasSubstr(" 0 to continue, 1 failed")));
  EXPECT_THAT(outcome.text, HasSubstr("3 of 4 runs done, 1 failed"));
  expect_numbers_of_local();
}

// A signal that a user asks for before a job's time is up ended the run without
// a checkpoint. Issue 55, item 12.
TEST_F(SlurmSweeps, SignalsOfSbatchSaveRunsOfItsStepsAndOfItsScript) {
  const std::string run =
      fmt::format("{} run small.toml turns=100000000 evaluate_every=0 --dir",
                  SLUICE_PROGRAM);
  const std::string submit = "sbatch -n 1 --time=1 --signal=";
  const Outcome outcome = with_slurm(
      "", fmt::format("printf '#!/bin/sh\\nsrun {0} step\\n' >step.sh\n"
                      "printf '#!/bin/sh\\nexec {0} script\\n' >whole.sh\n"
                      "{1}USR1@55 step.sh\n{1}B:USR2@55 whole.sh\n"
                      "wait_for_file step/metrics.jsonl\n"
                      "wait_for_file script/metrics.jsonl\nwait_for_end\n"
                      "cat step/status.json script/status.json | "
                      "grep -c '\"state\": \"stopped\"'\n"
                      "ls -d */checkpoints/turn-* | wc -l\n",
                      run, submit));
  if (outcome.status == kNoSlurm) GTEST_SKIP() << outcome.text;
  EXPECT_THAT(outcome.text, testing::EndsWith("\n2\n2\n"));
}

TEST_F(SlurmSweeps, JoinWhatIsInTheQueue) {
  const Outcome outcome =
      with_slurm("optimizer.lr=0.1,0.01",
                 "sweep --launcher slurm --no-wait --slurm=--begin=now+8\n"
                 "sweep\nsweep --launcher slurm\nls slurm/slurm\n");
  if (outcome.status == kNoSlurm) GTEST_SKIP() << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("2 of its runs are in Slurm's queue; wait for them"));
  EXPECT_THAT(outcome.text,
              HasSubstr("2 of the runs are in Slurm's queue already"));
  EXPECT_THAT(outcome.text, HasSubstr("2 of 2 runs done"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("array-2")));
}

TEST_F(SlurmSweeps, LeaveTheirJobsInTheQueueWhenInterrupted) {
  const Outcome outcome =
      with_slurm("optimizer.lr=0.1,0.01",
                 "sweep --launcher slurm --slurm=--begin=now+60 &\n"
                 "wait_for_file slurm/slurm/array-1/job\n"
                 "kill $(pgrep -f \"sweep $PWD/small.toml\")\nwait\n"
                 "echo queued $(squeue -h -r | wc -l)\n");
  if (outcome.status == kNoSlurm) GTEST_SKIP() << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Its jobs stay in Slurm's queue"));
  EXPECT_THAT(outcome.text, HasSubstr("status 4"));
  EXPECT_THAT(outcome.text, HasSubstr("queued 2"));
}

TEST_F(SlurmSweeps, ATaskThatIsKilledHasFailedAndIsTriedAgain) {
  const std::string arguments =
      fmt::format("optimizer.lr=0.1,0.01 {}", kLonger);
  ASSERT_EQ(sweep(arguments, "local").status, kDone);
  const Outcome outcome = with_slurm(
      arguments, fmt::format("sweep --launcher slurm --no-wait\n"
                             "wait_for_file slurm/{}/metrics.jsonl\n"
                             "kill -9 $(pgrep -f \"task-of-sweep --array "
                             "$PWD/slurm/slurm/array-1 --task 2\")\n"
                             "sweep --launcher slurm\n"
                             "cat slurm/{}.failed\n"
                             "sweep --launcher slurm --on-failure retry\n",
                             "cells/002-0.01/seed-1", "cells/002-0.01/seed-1"));
  if (outcome.status == kNoSlurm) GTEST_SKIP() << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("1 of 2 runs done, 1 failed"));
  EXPECT_THAT(outcome.text, HasSubstr("_2 of Slurm was lost"));
  EXPECT_THAT(outcome.text, HasSubstr("2 of 2 runs done"));
  expect_numbers_of_local();
}

TEST_F(SlurmSweeps, HalvingSubmitsEachRung) {
  const std::string halved =
      "optimizer.lr=0.1,1e-9 turns=40 evaluate_every=1 "
      "'sweep.halving={rungs=[1], measure=\"loss\"}'";
  ASSERT_EQ(sweep(halved, "local").status, kDone);
  const Outcome outcome = with_slurm(halved, "sweep --launcher slurm\n");
  if (outcome.status == kNoSlurm) GTEST_SKIP() << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("After epoch 1 1 of 2 cells go on"));
  EXPECT_THAT(outcome.text,
              HasSubstr("1 of 2 runs done, 1 stopped by halving"));
  EXPECT_THAT(outcome.text, HasSubstr("status 0"));
  expect_numbers_of_local();
}

TEST_F(SlurmSweeps, ARefusalIsOneErrorThatSaysWhy) {
  const Outcome outcome =
      with_slurm("optimizer.lr=0.1,0.01",
                 "sweep --launcher slurm --slurm=--partition=nowhere\n"
                 "sweep --launcher slurm --slurm=--no-such-option\n"
                 "ls slurm/slurm\n");
  if (outcome.status == kNoSlurm) GTEST_SKIP() << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("sluice: sbatch refuses " + path("slurm/slurm")));
  EXPECT_THAT(outcome.text, HasSubstr("nvalid partition"));
  EXPECT_THAT(outcome.text, HasSubstr("unrecognized option"));
  EXPECT_THAT(outcome.text, HasSubstr("status 2"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("array-1\n")));
}

}  // namespace sluice::sweep::sweep_slurm_test
