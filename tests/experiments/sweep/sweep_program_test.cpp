// `sluice sweep` as it is used: what is run, skipped, continued, and refused.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lib/base/files/folder_lock.h"
#include "tests/experiments/sweep/sweeps.h"

namespace sluice::sweep::sweep_program_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

TEST_F(SluiceSweeps, DoEveryCellWithEverySeed) {
  const Outcome outcome = sweep("optimizer.lr=0.1,0.01 --seeds 2 --jobs 2");
  EXPECT_EQ(outcome.status, kDone) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("2 cells x 2 seeds = 4 runs"));
  EXPECT_THAT(outcome.text, HasSubstr("[4/4]"));
  EXPECT_THAT(outcome.text, HasSubstr("; 0 left"));
  for (const char* run : {"001-0.1/seed-1", "001-0.1/seed-2", "002-0.01/seed-1",
                          "002-0.01/seed-2"})
    EXPECT_TRUE(fs::exists(path("out/cells/") + run + "/done")) << run;
  EXPECT_THAT(slurp(path("out/cells/002-0.01/seed-2/config.toml")),
              HasSubstr("seed = 2"));
}

TEST_F(SluiceSweeps, ARunIsThatOfSluiceRun) {
  sweep("optimizer.lr=0.1,0.01 --seeds 2");
  const Outcome run = sluice("run " + path("small.toml") +
                             " optimizer.lr=0.01 seed=2 --dir " + path("run"));
  ASSERT_EQ(run.status, 0) << run.text;
  const std::string weights = "/checkpoints/turn-000012/block-1.safetensors";
  const std::string ours = slurp(path("out/cells/002-0.01/seed-2" + weights));
  EXPECT_FALSE(ours.empty());
  EXPECT_EQ(ours, slurp(path("run" + weights)));
}

TEST_F(SluiceSweeps, TheCellsTableReplacesThatOfTheConfig) {
  const Outcome outcome = sweep(
      "boundary.policy=local_loss boundary.head.name=predsim "
      "'boundary={policy=\"backprop\"},{policy=\"local_loss\"}'");
  EXPECT_EQ(outcome.status, kDone) << outcome.text;
}

TEST_F(SluiceSweeps, SkipWhatIsDone) {
  sweep("optimizer.lr=0.1,0.01");
  const std::string done = path("out/cells/001-0.1/seed-1/done");
  const auto written = fs::last_write_time(done);
  const std::string plan = slurp(path("out/sweep.json"));
  const Outcome again = sweep("optimizer.lr=0.1,0.01 log_every=3");
  EXPECT_EQ(again.status, kDone) << again.text;
  EXPECT_THAT(again.text, HasSubstr("2 done, 0 to continue"));
  EXPECT_THAT(again.text, Not(HasSubstr("[2/2]")));
  EXPECT_EQ(fs::last_write_time(done), written);
  EXPECT_EQ(slurp(path("out/sweep.json")), plan);
}

TEST_F(SluiceSweeps, GoOnWithCellsAndSeedsThatAreAdded) {
  sweep("optimizer.lr=0.1,0.01");
  const Outcome more = sweep("optimizer.lr=0.5,0.1,0.01 --seeds 2");
  EXPECT_EQ(more.status, kDone) << more.text;
  EXPECT_THAT(more.text, HasSubstr("2 done"));
  EXPECT_TRUE(fs::exists(path("out/cells/003-0.5/seed-2/done")));
}

TEST_F(SluiceSweeps, RefuseAFolderWithAnotherPlan) {
  sweep("optimizer.lr=0.1,0.01");
  const Outcome other = sweep("optimizer.lr=0.1,0.02");
  EXPECT_EQ(other.status, kWrong);
  EXPECT_THAT(other.text, HasSubstr("it has the cell 002 (lr=0.01)"));
  EXPECT_EQ(std::count(other.text.begin(), other.text.end(), '\n'), 1);
}

TEST_F(SluiceSweeps, RefuseRunsOfAnotherConfigUnlessTheyAreDoneAgain) {
  sweep("optimizer.lr=0.1,0.01");
  const Outcome other = sweep("optimizer.lr=0.1,0.01 batch_size=12");
  EXPECT_EQ(other.status, kWrong);
  EXPECT_THAT(other.text, HasSubstr("batch_size is 24, not 12"));
  const Outcome again = sweep("optimizer.lr=0.1,0.01 batch_size=12 --again");
  EXPECT_EQ(again.status, kDone) << again.text;
  EXPECT_THAT(again.text, HasSubstr("[2/2]"));
}

TEST_F(SluiceSweeps, KeepAndReportWhatAnotherBuildHasMade) {
  sweep("optimizer.lr=0.1,0.01");
  const std::string file = path("out/cells/001-0.1/seed-1/run.json");
  auto run = nlohmann::ordered_json::parse(slurp(file));
  run["build"] = "0123456789ab";
  std::ofstream(file) << run.dump();
  const Outcome kept = sweep("optimizer.lr=0.1,0.01");
  EXPECT_EQ(kept.status, kDone);
  EXPECT_THAT(kept.text,
              HasSubstr("1 of them made by another build (0123456789ab)"));
  EXPECT_THAT(kept.text, HasSubstr("2 of 2 runs done"));
  const Outcome again = sweep("optimizer.lr=0.1,0.01 --again");
  EXPECT_THAT(again.text, HasSubstr("lr=0.1, seed 1: accuracy"));
  EXPECT_THAT(again.text, Not(HasSubstr("lr=0.01, seed 1: accuracy")));
  EXPECT_THAT(slurp(file), Not(HasSubstr("0123456789ab")));
}

TEST_F(SluiceSweeps, ADryRunWritesNothing) {
  const Outcome outcome = sweep("optimizer.lr=0.1,0.01 --seeds 2 --dry-run");
  EXPECT_EQ(outcome.status, kDone);
  EXPECT_THAT(outcome.text,
              HasSubstr("002  lr=0.01: seed 1 to do, seed 2 to do"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(SluiceSweeps, ABadCellIsOneErrorLineAndNothingStarts) {
  const Outcome outcome = sweep("optimizer.lr=0.1,nine");
  EXPECT_EQ(outcome.status, kWrong);
  EXPECT_THAT(outcome.text, HasSubstr("cell 002 (lr=nine): "));
  EXPECT_THAT(outcome.text, HasSubstr("expected a number"));
  EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1)
      << outcome.text;
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(SluiceSweeps, AConfigOfASweepIsNotOneOfARun) {
  write("small.toml", "[sweep]\nseeds = 2\n");
  const Outcome run = sluice("run " + path("small.toml"));
  EXPECT_EQ(run.status, kWrong);
  EXPECT_THAT(run.text, HasSubstr("sluice sweep"));
}

/// The first cell fails in its second turn, the other doesn't.
constexpr const char* kOneFails =
    "max_staleness=0 "
    "'boundary={policy=\"delayed_gradient\"},{policy=\"backprop\"}'";

TEST_F(SluiceSweeps, MarkWhatFailsAndGoOn) {
  const Outcome outcome = sweep(kOneFails);
  EXPECT_EQ(outcome.status, kSomeFailed) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("1 of 2 runs done, 1 failed"));
  const std::string failed =
      slurp(path("out/cells/001-delayed_gradient/seed-1.failed"));
  EXPECT_THAT(failed, HasSubstr("max_staleness is 0"));
  EXPECT_EQ(std::count(failed.begin(), failed.end(), '\n'), 1);
  EXPECT_TRUE(fs::exists(path("out/cells/002-backprop/seed-1/done")));
}

TEST_F(SluiceSweeps, LeaveWhatHasFailedUnlessTheyShallTryAgain) {
  sweep(kOneFails);
  const Outcome report = sweep(kOneFails);
  EXPECT_EQ(report.status, kSomeFailed);
  EXPECT_THAT(report.text, Not(HasSubstr("[1/2]")));
  const Outcome retry = sweep(std::string(kOneFails) + " --on-failure retry");
  EXPECT_EQ(retry.status, kSomeFailed);
  EXPECT_THAT(retry.text, HasSubstr("[1/2]"));
  // What stood in its way is gone.
  write("out/cells/001-delayed_gradient/seed-1.failed", "out of memory\n");
  const Outcome mended = sweep(std::string(kOneFails) +
                               " max_staleness=3 --on-failure retry --again");
  EXPECT_EQ(mended.status, kDone) << mended.text;
  EXPECT_FALSE(
      fs::exists(path("out/cells/001-delayed_gradient/seed-1.failed")));
}

TEST_F(SluiceSweeps, TryARunThatFailsOnceMore) {
  const Outcome outcome = sweep(std::string(kOneFails) + " --on-failure retry");
  EXPECT_EQ(outcome.status, kSomeFailed);
  EXPECT_THAT(outcome.text, HasSubstr("failed, and is tried again"));
  EXPECT_THAT(outcome.text, HasSubstr("seed 1: failed: "));
}

constexpr const char* kLonger =
    "optimizer.lr=0.1,0.01 turns=4000 evaluate_every=40 --jobs 2";

TEST_F(SluiceSweeps, InterruptedTheyGoOnToTheSameNumbers) {
  ASSERT_EQ(sweep(kLonger, "whole").status, kDone);
  const std::string run = "parts/cells/001-0.1/seed-1";
  EXPECT_THAT(
      interrupted(kLonger, "parts", run + "/metrics.jsonl", "\n", SIGTERM),
      HasSubstr("status 4"));
  EXPECT_FALSE(fs::exists(path(run + "/done")));
  EXPECT_THAT(
      interrupted(kLonger, "parts", run + "/run.json", "continued", SIGINT),
      HasSubstr("status 4"));
  const Outcome rest = sweep(kLonger, "parts");
  EXPECT_EQ(rest.status, kDone) << rest.text;
  EXPECT_THAT(rest.text, HasSubstr("to continue"));
  // Checkpoints of the interruptions are there beside those at the end.
  for (const auto& [name, numbers] : numbers_of("whole"))
    EXPECT_EQ(numbers_of("parts")[name], numbers) << name;
  EXPECT_EQ(slurp(path("parts/sweep.json")), slurp(path("whole/sweep.json")));
}

/// Ten turns to an epoch; the smallest rates learn nothing.
constexpr const char* kHalved =
    "optimizer.lr=0.1,1e-9,0.05,1e-8 turns=40 evaluate_every=1 "
    "'sweep.halving={rungs=[1, 1.5], measure=\"loss\"}' --jobs 2";

TEST_F(SluiceSweeps, HalvingStopsTheWorseCells) {
  const Outcome outcome = sweep(kHalved);
  EXPECT_EQ(outcome.status, kDone) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("halving: after epochs 1, 1.5"));
  EXPECT_THAT(outcome.text, HasSubstr("After epoch 1 2 of 4 cells go on"));
  EXPECT_THAT(outcome.text, HasSubstr("After epoch 1.5 1 of 2 cells go on"));
  EXPECT_THAT(outcome.text,
              HasSubstr("1 of 4 runs done, 3 stopped by halving"));
  const std::string worse = path("out/cells/002-1e-09/seed-1");
  EXPECT_TRUE(fs::exists(worse + ".pruned"));
  EXPECT_FALSE(fs::exists(worse + "/done"));
  // A rung is at the first evaluation from then on.
  EXPECT_TRUE(fs::exists(worse + "/checkpoints/turn-000010"));
  std::string best = path("out/cells/001-0.1/seed-1");
  std::string second = path("out/cells/003-0.05/seed-1");
  if (!fs::exists(best + "/done")) std::swap(best, second);
  EXPECT_TRUE(fs::exists(best + "/checkpoints/turn-000040"));
  EXPECT_TRUE(fs::exists(second + "/checkpoints/turn-000020"));
  EXPECT_FALSE(fs::exists(second + "/done"));
  const Outcome again = sweep(kHalved);
  EXPECT_EQ(again.status, kDone);
  EXPECT_THAT(again.text, Not(HasSubstr("after turn")));
}

TEST_F(SluiceSweeps, AHalvedRunHasTheNumbersOfAWholeOne) {
  ASSERT_EQ(sweep(kHalved).status, kDone);
  const std::string cell = fs::exists(path("out/cells/001-0.1/seed-1/done"))
                               ? "001-0.1"
                               : "003-0.05";
  const Outcome run =
      sluice("run " + path("small.toml") +
             " turns=40 evaluate_every=1 optimizer.lr=" + cell.substr(4) +
             " --dir " + path("run"));
  ASSERT_EQ(run.status, 0) << run.text;
  const std::string ours = path("out/cells/" + cell + "/seed-1");
  EXPECT_EQ(evaluations_of(ours), evaluations_of(path("run")));
  const std::string weights = "/checkpoints/turn-000040/block-2.safetensors";
  EXPECT_EQ(slurp(ours + weights), slurp(path("run" + weights)));
}

TEST_F(SluiceSweeps, HalvingWithoutEvaluationsIsAnError) {
  const Outcome outcome = sweep(
      "optimizer.lr=0.1,0.2 evaluate_every=0 "
      "'sweep.halving={rungs=[1]}'");
  EXPECT_EQ(outcome.status, kWrong);
  EXPECT_THAT(outcome.text, HasSubstr("set evaluate_every above 0"));
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(SluiceSweeps, BlocksThatRanFreeGoOn) {
  const std::string free =
      "optimizer.lr=0.1,0.01 schedule=free engine=threads turns=4000 "
      "boundary.policy=delayed_gradient";
  const std::string run = "out/cells/001-0.1/seed-1";
  EXPECT_THAT(interrupted(free, "out", run + "/metrics.jsonl", "\n", SIGTERM),
              HasSubstr("status 4"));
  const Outcome rest = sweep(free);
  EXPECT_EQ(rest.status, kDone) << rest.text;
  EXPECT_THAT(slurp(path(run + "/run.json")), HasSubstr("continued"));
  EXPECT_THAT(sluice("replay " + path(run)).text, HasSubstr(": same bits"));
}

TEST_F(SluiceSweeps, BlocksWithBuffersBeginAnew) {
  const std::string free =
      "optimizer.lr=0.1,0.01 schedule=free engine=threads turns=400 "
      "boundary.policy=local_loss boundary.buffer.batches=2";
  ASSERT_EQ(sweep(free).status, kDone);
  fs::remove(path("out/cells/001-0.1/seed-1/done"));
  fs::remove(path("out/cells/001-0.1/seed-1/metrics.jsonl"));
  const Outcome rest = sweep(free);
  EXPECT_EQ(rest.status, kDone) << rest.text;
  EXPECT_THAT(rest.text, HasSubstr("2 of 2 runs done"));
}

TEST_F(SluiceSweeps, AKilledLauncherLeavesNoOrphan) {
  const std::string log =
      interrupted("optimizer.lr=0.1,0.01 turns=100000 --jobs 2", "out",
                  "out/cells/002-0.01/seed-1/metrics.jsonl", "\n", SIGKILL);
  EXPECT_THAT(log, HasSubstr("status 137"));
  const std::string find =
      "ps -eo args | grep -c '[r]un-of-sweep --dir " + path("out") + "'";
  Outcome left;
  for (int i = 0; i < 200 && left.text != "0\n"; ++i) {
    left = shell(find);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(left.text, "0\n");
  // No process holds the folder any more.
  EXPECT_EQ(sweep("optimizer.lr=0.1,0.01 turns=12 --again").status, kDone);
}

TEST_F(SluiceSweeps, TwoDoNotWorkInOneFolder) {
  fs::create_directory(path("out"));
  const FolderLock lock(path("out"));
  const Outcome outcome = sweep("optimizer.lr=0.1,0.01");
  EXPECT_EQ(outcome.status, kWrong);
  EXPECT_THAT(outcome.text, HasSubstr("another process works there"));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("out")), {}), 1);
  EXPECT_EQ(sweep("optimizer.lr=0.1,0.01 --dry-run").status, kDone);
}

}  // namespace sluice::sweep::sweep_program_test
