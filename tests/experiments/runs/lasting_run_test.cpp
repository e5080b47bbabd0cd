// Issue 18, item 12: a run outlives its program's file, and ends with advice
// that works.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::lasting_run_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

using LastingRun = Faults;

/// Puts something else in a program's place as soon as that has a worker.
void replace_program(const std::string& program, const std::string& dir) {
  for (int tries = 0; tries < 6000 && worker_of(dir, 3) == 0; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_NE(worker_of(dir, 3), 0);
  fs::remove(program);
  fs::copy_file("/bin/false", program);
}

TEST_F(LastingRun, StartsAgainFromTheVeryProgramThatWasReplaced) {
  const std::string program = path("program");
  fs::copy_file(SLUICE_PROGRAM, program);
  std::thread builder(replace_program, program, path("disturbed"));
  const Outcome outcome =
      shell(program + " " +
            command("disturbed",
                    "on_failure=restart --inject 'delay 1->2 100ms; kill "
                    "block 2 @ turn 10'"));
  builder.join();
  EXPECT_EQ(shell(program).status, 1) << "it was not replaced";
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(records_of(path("disturbed"), "restart").size(), 1U);
  expect_undisturbed("disturbed");
}

TEST_F(LastingRun, WithALimitOnFilesEndsWithAnErrorAndCanBeContinued) {
  if (!kFilesCanBeLimited)
    GTEST_SKIP() << "the thread sanitizer needs files of more than the limit";
  // A checkpoint has 308 kB, the metrics of all turns have more.
  const std::string more = "turns=1200 checkpoint.every_turns=50";
  const Outcome limited =
      shell(fmt::format("bash -c 'ulimit -f 320; exec {} {}'", SLUICE_PROGRAM,
                        command("disturbed", more)));
  EXPECT_EQ(limited.status, 2) << limited.text;
  EXPECT_THAT(limited.text, HasSubstr("can't be written: File too large"));
  EXPECT_THAT(limited.text, Not(HasSubstr("signal")));
  const Outcome resumed = sluice("run --resume " + path("disturbed"));
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_THAT(resumed.text, HasSubstr("continued after turn"));
  expect_undisturbed("disturbed", more);
}

// A process may be killed between the two.
TEST_F(LastingRun, TakesRecordsOfTheRestOnceWhereMetricsHasThemAlready) {
  ASSERT_EQ(sluice(command("run", "")).status, 0);
  const std::string metrics = slurp(path("run/metrics.jsonl"));
  std::ofstream(path("run/metrics-rest.jsonl")) << metrics;
  ASSERT_EQ(sluice("run --resume " + path("run") + " turns=30").status, 0);
  EXPECT_FALSE(fs::exists(path("run/metrics-rest.jsonl")));
  std::istringstream lines(slurp(path("run/metrics.jsonl")));
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(seen.insert(line).second) << line;
  EXPECT_GT(seen.size(), 10U);
}

TEST_F(LastingRun, WithoutRoomForACheckpointSaysSo) {
  if (!kFilesCanBeLimited)
    GTEST_SKIP() << "the thread sanitizer needs files of more than the limit";
  const Outcome limited =
      shell(fmt::format("bash -c 'ulimit -f 16; exec {} {}'", SLUICE_PROGRAM,
                        command("disturbed", "")));
  EXPECT_EQ(limited.status, 2) << limited.text;
  EXPECT_THAT(limited.text, HasSubstr("can't be written: File too large"));
  expect_nothing_left("disturbed");
}

TEST_F(LastingRun, ThatRanFreeAndFailedCanBeContinued) {
  const Outcome outcome =
      run("free", "schedule=free --inject 'kill block 2 @ turn 10'");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("run --resume " + path("free")));
  const Outcome resumed = sluice("run --resume " + path("free"));
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(sluice("replay " + path("free")).status, 0);
}

TEST_F(LastingRun, ThatRanFreeWithABufferAndFailedIsFollowedByAnother) {
  const Outcome outcome =
      run("free",
          "schedule=free 'boundary={policy=\"local_loss\",buffer={batches=2}}' "
          "--inject 'kill block 2 @ turn 10'");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_THAT(outcome.text, Not(HasSubstr("--resume")));
  const std::string first = "sluice run ";
  const std::size_t begin = outcome.text.find(first);
  ASSERT_NE(begin, std::string::npos) << outcome.text;
  const std::string advice = outcome.text.substr(
      begin + first.size(),
      outcome.text.find(" (a run with") - begin - first.size());
  EXPECT_THAT(advice, HasSubstr("initial_weights="));
  const Outcome next = sluice("run " + advice + " --dir " + path("next"));
  EXPECT_EQ(next.status, 0) << next.text;
  const Outcome refused = sluice("run --resume " + path("free"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr(advice));
}

}  // namespace sluice::lasting_run_test
