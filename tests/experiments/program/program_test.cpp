// Every engine gives the same bits, and a real program really trains.
#include "tests/experiments/helpers/program.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::program_test {

namespace fs = std::filesystem;

// Updates of processes ran in bfloat16, and those of the replay did not.
TEST_F(Program, ReplaysFreeReplicasWithMuonInBf16ToTheBit) {
  const std::string config =
      write("config.toml",
            config_with("blocks = 2\nschedule = 'free'\nprecision = 'bf16'\n"
                        "allocator = 'system'\noptimizer = {name = 'muon'}\n"
                        "boundary = {policy = 'delayed_gradient'}\n"
                        "replicas = {count = 2}\n"));
  const Outcome outcome = sluice("verify " + config);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
}

class SameBits
    : public Program,
      public testing::WithParamInterface<std::pair<const char*, const char*>> {
};

TEST_P(SameBits, InVirtualThreadsAndProcesses) {
  const std::string config =
      write("config.toml", config_with(GetParam().second));
  const NamedTensors reference = weights_on("virtual", config);
  EXPECT_EQ(difference(reference, weights_on("threads", config)), "");
  EXPECT_EQ(difference(reference, weights_on("processes", config)), "");
}

INSTANTIATE_TEST_SUITE_P(
    Engines, SameBits,
    testing::Values(
        std::pair("MlpBackprop",
                  "blocks = 2\nmodel = {hidden = [48, 40], dropout = 0.2}\n"),
        std::pair("B7_MlpLocalLoss",
                  "blocks = 2\nmodel = {hidden = [48, 40], dropout = 0.2}\n"
                  "boundary = {policy = 'local_loss', head = {name = "
                  "'predsim'}}\n"),
        std::pair("ConvChannelsLastBackprop",
                  "blocks = 2\nmemory_format = 'channels_last'\n"
                  "model = {name = 'conv3', channels = 8, dropout = 0.2}\n"),
        std::pair("ConvChannelsLastLocalLossInThree",
                  "blocks = 3\nmemory_format = 'channels_last'\n"
                  "model = {name = 'conv3', channels = 8, dropout = 0.2}\n"
                  "boundary = {policy = 'local_loss'}\n"),
        std::pair("X4_Interlocking",
                  "blocks = 3\nmodel = {hidden = [48, 40, 32], dropout = "
                  "0.2}\nboundary = {policy = 'local_loss', reach = 1, rule = "
                  "'furthest'}\n"),
        std::pair("X4_Timetable",
                  "blocks = 3\nevaluate_every = 0.2\n"
                  "model = {hidden = [48, 40, 32]}\n"
                  "boundary = {policy = 'fully_decoupled'}\n"
                  "timetable = [{turn = 5, boundary = {policy = "
                  "'delayed_gradient'}}, {accuracy = 0.01, boundary = {1 = "
                  "{policy = 'local_loss'}}}]\n"),
        std::pair("X4_ProbedSyntheticGradient",
                  "blocks = 3\nprobe = {every = 2}\n"
                  "model = {hidden = [48, 40, 32]}\n"
                  "boundary = {policy = 'synthetic_gradient'}\n"),
        std::pair("MixClippedOverTheModel",
                  "blocks = 3\nmodel = {hidden = [48, 40, 32]}\n"
                  "optimizer = {lr = 0.05, clip = {norm = 0.5, scope = "
                  "'model'}}\n")),
    [](const auto& info) { return std::string(info.param.first); });

TEST_F(Program, ResolvedConfigGivesTheSameBits) {
  const std::string config =
      write("config.toml",
            config_with("blocks = 3\nmodel = {hidden = [48, 40]}\n"
                        "boundary = {policy = 'local_loss', 2 = {policy = "
                        "'backprop'}}\n"));
  const NamedTensors first = weights_on("virtual", config);
  const std::string resolved = slurp(path("virtual/config.toml"));
  const std::string again = write("again.toml", resolved);
  EXPECT_EQ(difference(first, weights_on("virtual", again)), "");
  EXPECT_EQ(slurp(path("virtual/config.toml")), resolved);
}

TEST_F(Program, LeavesARunFolderWithMetricsAndADoneMarker) {
  const std::string config = write("config.toml", config_with(""));
  weights_on("processes", config);
  for (const char* name : {"config.toml", "run.json", "metrics.jsonl", "done"})
    EXPECT_TRUE(fs::exists(path("processes/") + name)) << name;
  std::ifstream metrics(path("processes/metrics.jsonl"));
  int records = 0;
  for (std::string line; std::getline(metrics, line); ++records)
    EXPECT_NE(record_from_json(line).find("kind"), nullptr);
  // 12 turns of 2 blocks, evaluations at turns 10 and 12, what each block cost,
  // the histograms of its two counters of staleness, and the summary.
  EXPECT_EQ(records, 12 * 2 + 2 + 2 + 2 * 2 + 1);
}

TEST_F(Program, DoesNotOverwriteARunUnasked) {
  const std::string config = write("config.toml", config_with(""));
  weights_on("virtual", config);
  const Outcome again = sluice("run " + config + " --dir " + path("virtual"));
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.text.find("holds a run already"), std::string::npos);
}

/// How many processes have `word` on their command line.
int processes_with(const std::string& word) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string command = slurp(entry.path().string() + "/cmdline");
    if (command.find(word) != std::string::npos) ++count;
  }
  return count;
}

int worker_of_block(const std::string& dir, int block) {
  const std::string wanted = std::string("--dir") + '\0' + dir + '\0' +
                             "--block" + '\0' + std::to_string(block) + '\0';
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (slurp(entry.path().string() + "/cmdline").find(wanted) !=
        std::string::npos)
      return std::stoi(name);
  }
  return 0;
}

/// Starts a run that would take long, kills the worker of a block with `signal`
/// and gives what the launcher said.
Outcome run_with_dead_worker(const std::string& config, const std::string& dir,
                             int block) {
  std::thread killer([&] {
    for (int tries = 0; tries < 1000; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const int pid = worker_of_block(dir, block);
      if (pid == 0 || !fs::exists(dir + "/metrics.jsonl") ||
          fs::file_size(dir + "/metrics.jsonl") < 2000)
        continue;
      ::kill(pid, SIGKILL);
      return;
    }
  });
  const Outcome outcome = sluice("run " + config + " --dir " + dir);
  killer.join();
  return outcome;
}

TEST_F(Program, NamesAWorkerThatWasKilledAndLeavesNoProcessBehind) {
  const std::string config =
      write("config.toml",
            "engine = 'processes'\nepochs = 100000\nthreads = 1\n"
            "data = {train = 240, test = 40}\n");
  const std::string dir = path("killed");
  const Outcome outcome = run_with_dead_worker(config, dir, 2);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text.find("block 2 was ended by signal 9"),
            std::string::npos)
      << outcome.text;
  EXPECT_EQ(processes_with(dir), 0);
  EXPECT_FALSE(fs::exists(dir + "/done"));
}

TEST_F(Program, EndsAnInterruptedRunWithACheckpoint) {
  const std::string config =
      write("config.toml",
            "engine = 'processes'\nepochs = 100000\nthreads = 1\n"
            "data = {train = 240, test = 40}\n");
  const std::string dir = path("stopped");
  std::thread interrupter([&] {
    for (int tries = 0; tries < 1000; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (!fs::exists(dir + "/metrics.jsonl") ||
          fs::file_size(dir + "/metrics.jsonl") < 2000)
        continue;
      std::system((std::string("pkill -INT -f '^") + SLUICE_PROGRAM + " run " +
                   config + "'")
                      .c_str());
      return;
    }
  });
  const Outcome outcome = sluice("run " + config + " --dir " + dir);
  interrupter.join();
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("Stopped"), std::string::npos) << outcome.text;
  EXPECT_FALSE(fs::exists(dir + "/done"));
  const fs::path saved = fs::directory_iterator(dir + "/checkpoints")->path();
  EXPECT_FALSE(load_weights(saved.string()).empty());
  EXPECT_EQ(saved.extension(), "") << "it was not finished";
}

TEST_F(Program, DoesNotTouchFilesThatItDidNotWrite) {
  const std::string config = write("config.toml", config_with(""));
  fs::create_directories(path("mine/checkpoints"));
  std::ofstream(path("mine/checkpoints/precious")) << "x";
  EXPECT_EQ(sluice("run " + config + " --dir " + path("mine")).status, 2);
  EXPECT_TRUE(fs::exists(path("mine/checkpoints/precious")));
}

/// Block 1 may apply no gradient that is late, and all of its are.
constexpr const char* kFails =
    "batch_size = 24\nthreads = 1\ntimeout = 20\nmax_staleness = 0\n"
    "model = {hidden = [32]}\nboundary = {policy = 'delayed_gradient'}\n"
    "data = {train = 240, test = 40}\n";

class FailingWorker : public Program,
                      public testing::WithParamInterface<const char*> {};

TEST_P(FailingWorker, EndsTheRunWithOneLineThatSaysWhy) {
  const std::string config = write("config.toml", kFails);
  const Outcome run = sluice("run " + config + " --dir " + path("run") +
                             " engine=" + GetParam());
  EXPECT_EQ(run.status, 2) << run.text;
  EXPECT_NE(run.text.find("sluice: block 1: in turn 1 it would apply the "
                          "gradient of batch 0"),
            std::string::npos)
      << run.text;
  // The method, the data and the error.
  EXPECT_EQ(std::count(run.text.begin(), run.text.end(), '\n'), 3) << run.text;
  EXPECT_EQ(processes_with(path("run")), 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, FailingWorker,
                         testing::Values("virtual", "threads", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST_F(Program, LogsTheLearningRateOfTheTurn) {
  const std::string config = write(
      "config.toml",
      config_with("optimizer = {lr = 1, schedule = {name = 'step', milestones "
                  "= [0.5, 1], factor = 0.5}}\n"));
  weights_on("virtual", config);
  std::ifstream metrics(path("virtual/metrics.jsonl"));
  std::vector<double> rates;
  for (std::string line; std::getline(metrics, line);) {
    const Record record = record_from_json(line);
    if (record.text("kind") == "train" && record.number("block", 0) == 1)
      rates.push_back(record.number("lr", -1));
  }
  EXPECT_EQ(rates, (std::vector<double>{1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5,
                                        0.25, 0.25}));
}

TEST_F(Program, PlanReadsTheActionsThatItLists) {
  const std::string config = write("config.toml", "blocks = 2");
  const Outcome list = sluice("plan " + config + " --list");
  const std::string actions = write("actions.txt", list.text);
  const Outcome again =
      sluice("plan " + config + " --list --actions " + actions);
  EXPECT_EQ(again.status, 0);
  EXPECT_EQ(again.text, list.text);
}

}  // namespace sluice::program_test
