// What a config resolves to, and a run that only tries it out.
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::config_command_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(Program, ConfigPrintsWhatARunHasInItsFolder) {
  const std::string config = write(
      "config.toml",
      config_with("optimizer = {lr = 0.05}\nmodel = {hidden = [24, 16]}\n"));
  const Outcome printed = sluice("config " + config + " engine=threads");
  EXPECT_EQ(printed.status, 0) << printed.text;
  EXPECT_THAT(printed.text,
              AllOf(HasSubstr("lr = 0.05"), HasSubstr("momentum = 0.0"),
                    HasSubstr("engine = \"threads\"")));
  const NamedTensors weights = weights_on("threads", config);
  // The run's has a table for each block.
  EXPECT_EQ(sluice("config " + path("threads/config.toml")).text, printed.text);
  // And it can be run: with the same bits, and the same text again.
  const std::string again = write("again.toml", printed.text);
  EXPECT_EQ(sluice("config " + again).text, printed.text);
  EXPECT_EQ(difference(weights, weights_on("virtual", again)), "");
}

TEST_F(Program, ConfigWithoutAFileHasTheDefaults) {
  EXPECT_THAT(sluice("config").text, HasSubstr("lr = 0.1\n"));
  EXPECT_THAT(sluice("config optimizer.lr=0.5 optimizer.name=adam").text,
              AllOf(HasSubstr("lr = 0.5\n"), HasSubstr("beta1"),
                    Not(HasSubstr("nesterov"))));
}

TEST_F(Program, ConfigPutsReferencesAndOverridesInTheirPlace) {
  const std::string config =
      write("config.toml",
            config_with("name = 'lr-${optimizer.lr}'\noptimizer = {lr = 0.05, "
                        "schedule = {name = 'linear', final_rate = "
                        "'${optimizer.lr}'}}\n"));
  EXPECT_THAT(
      sluice("config " + config).text,
      AllOf(HasSubstr("name = \"lr-0.05\""), HasSubstr("final_rate = 0.05")));
  EXPECT_THAT(
      sluice("config " + config + " optimizer.lr=0.25").text,
      AllOf(HasSubstr("name = \"lr-0.25\""), HasSubstr("final_rate = 0.25")));
}

/// How many records of that kind a run has.
int records_of(const std::string& folder, const std::string& kind) {
  std::ifstream metrics(folder + "/metrics.jsonl");
  int count = 0;
  for (std::string line; std::getline(metrics, line);)
    if (nlohmann::json::parse(line).value("kind", "") == kind) ++count;
  return count;
}

TEST_F(Program, AFastDevRunTriesEverythingInAFewTurns) {
  const std::string config =
      write("config.toml",
            "name = 'long'\nepochs = 50\nbatch_size = 8\nthreads = 1\n"
            "blocks = 3\nmodel = {hidden = [16, 16, 16]}\n"
            "boundary = {policy = 'delayed_gradient'}\n"
            "data = {train = 240, test = 40}\nevaluate_every = 0.2\n"
            "timetable = [{epoch = 20, boundary = {policy = 'local_loss'}}]\n");
  const auto fast = [&](const std::string& more) {
    return shell("cd " + folder_ + " && " + SLUICE_PROGRAM + " run " + config +
                 " --fast-dev-run " + more);
  };
  for (int time = 1; time <= 2; ++time) {  // the second replaces the first
    const Outcome run = fast("");
    EXPECT_EQ(run.status, 0) << run.text;
  }
  const std::string folder = path("runs/fast-dev-run/long");
  EXPECT_TRUE(fs::exists(folder + "/done"));
  EXPECT_TRUE(fs::exists(checkpoint_folder(folder + "/checkpoints", 4)));
  EXPECT_EQ(records_of(folder, "evaluation"), 1);
  const auto run = nlohmann::json::parse(slurp(folder + "/run.json"));
  EXPECT_EQ(run.at("samples").at("train"), 240);
  EXPECT_EQ(run.at("samples").at("test"), 16);
  // What it leaves out has been read: here a phase's policy.
  const Outcome wrong =
      fast("'timetable=[{epoch = 20, boundary = {policy = \"lokal_loss\"}}]'");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.text, HasSubstr("did you mean 'local_loss'"));
  EXPECT_EQ(shell(std::string(SLUICE_PROGRAM) + " run --resume " + folder +
                  " --fast-dev-run")
                .status,
            2);
}

TEST_F(Program, AFastDevRunHasAnUpdateOfTheBlockWithTheLongestWindow) {
  const std::string config =
      write("config.toml",
            "name = 'free'\nepochs = 50\nbatch_size = 8\nthreads = 1\n"
            "engine = 'threads'\nschedule = 'free'\nin_flight = 4\n"
            "blocks = 3\nmodel = {hidden = [16, 16, 16]}\n"
            "accumulate = {by_block = [1, 1, 5]}\n"
            "boundary = {policy = 'delayed_gradient'}\n"
            "data = {train = 240, test = 40}\n");
  const Outcome run = shell("cd " + folder_ + " && " + SLUICE_PROGRAM +
                            " run " + config + " --fast-dev-run");
  EXPECT_EQ(run.status, 0) << run.text;
  // Four updates of five turns each.
  EXPECT_TRUE(fs::exists(
      checkpoint_folder(path("runs/fast-dev-run/free/checkpoints"), 20)));
}

TEST_F(Program, ARunSaysHowManySamplesItsLimitsLeave) {
  const std::string config = write("config.toml", config_with(""));
  const Outcome run = sluice("run " + config +
                             " turns=0 epochs=1 limit.train=48 "
                             "limit.evaluation=7 --dir " +
                             path("run"));
  EXPECT_EQ(run.status, 0) << run.text;
  const auto json = nlohmann::json::parse(slurp(path("run/run.json")));
  EXPECT_EQ(json.at("samples").at("train"), 48);
  EXPECT_EQ(json.at("samples").at("test"), 7);
  // 48 samples are two batches of 24.
  EXPECT_TRUE(fs::exists(checkpoint_folder(path("run/checkpoints"), 2)));
}

}  // namespace sluice::config_command_test
