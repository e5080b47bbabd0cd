// What a rehearsal says before the first step, against what the blocks of a
// run in processes of their own have measured.
#include "experiments/runs/measuring/rehearsal.h"

#include <fstream>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/by_block.h"
#include "lib/memory/allocator.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::rehearsal_test {

struct Case {
  std::string name;
  std::string config;
};

void PrintTo(const Case& of, std::ostream* to) {
  *to << of.name;
}

constexpr auto kMlp =
    "blocks = 2\nbatch_size = 128\nmodel = {hidden = [512, 512, 512]}\n";
constexpr auto kConv =
    "blocks = 3\nbatch_size = 64\nmodel = {name = 'conv3', channels = 32, "
    "dropout = 0.1}\n";

std::string config_of(const std::string& lines) {
  return "turns = 12\nthreads = 1\n" + lines +
         "data = {train = 1280, test = 64}\n";
}

class Forecast : public Program, public testing::WithParamInterface<Case> {
 protected:
  /// The records of the blocks, by block.
  std::map<int, Record> measured(const std::string& config) {
    const Outcome outcome =
        sluice("run " + config + " engine=processes --dir " + path("run"));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    std::map<int, Record> blocks;
    std::ifstream file(path("run/metrics.jsonl"));
    for (std::string line; std::getline(file, line);) {
      const Record record = record_from_json(line);
      if (record.text("kind") == "block")
        blocks[static_cast<int>(record.number("block", 0))] = record;
    }
    return blocks;
  }
};

TEST_P(
    Forecast,
    ForecastOfTheLedgerIsWithinATenthOfWhatProcessesMeasureButForWhatChannelsHold) {
  if (!install_allocator())
    GTEST_SKIP() << "the caching allocator, which counts bytes, is off under "
                    "AddressSanitizer";
  const std::string config = write("config.toml", config_of(GetParam().config));
  const auto rehearsals = rehearse(read_experiment(read_toml_file(config), ""));
  const auto blocks = measured(config);
  ASSERT_EQ(blocks.size(), rehearsals.size());
  for (const auto& one : blocks) {
    SCOPED_TRACE("block " + std::to_string(one.first));
    const records::Memory& said =
        rehearsals[static_cast<std::size_t>(one.first) - 1].memory;
    const auto cost = one.second.read<records::Block>();
    const records::Memory& got = cost.memory;
    EXPECT_EQ(said.weights_bytes, got.weights_bytes);
    EXPECT_EQ(said.optimizer_bytes, got.optimizer_bytes);
    EXPECT_EQ(said.stash_bytes, got.stash_bytes);
    EXPECT_EQ(said.history_bytes, got.history_bytes);
    EXPECT_NEAR(*said.graph_bytes, *got.graph_bytes, 0.02 * *said.graph_bytes);
    // How much waits in channels is a matter of the machine's load: nothing,
    // or all that they hold.
    EXPECT_GE(*got.peak_bytes, 0.9 * (*said.peak_bytes - *said.queue_bytes));
    EXPECT_LE(*got.peak_bytes, 1.1 * *said.peak_bytes + *said.channels_bytes);
    EXPECT_GT(*cost.resident_bytes, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Memory, Forecast,
    testing::Values(
        Case{"MlpBackprop", kMlp},
        Case{"MlpDelayedGradient",
             std::string(kMlp) + "boundary = {policy = 'delayed_gradient'}\n"},
        Case{"MlpDelayedGradientAsBytes",
             std::string(kMlp) +
                 "boundary = {policy = 'delayed_gradient', codec = 'int8'}\n"},
        Case{"MlpVerticalSync", std::string(kMlp) +
                                    "boundary = {policy = 'delayed_gradient', "
                                    "weights = 'vertical_sync'}\n"},
        Case{"MlpLocalLoss",
             std::string(kMlp) + "boundary = {policy = 'local_loss'}\n"},
        Case{"ConvDelayedGradientRecomputed",
             std::string(kConv) +
                 "boundary = {policy = 'delayed_gradient', weights = "
                 "'recompute'}\n"},
        Case{"ConvFeaturesReplay",
             std::string(kConv) +
                 "boundary = {policy = 'features_replay', statistics = "
                 "'forward'}\n"},
        Case{"ConvFullyDecoupled",
             std::string(kConv) + "boundary = {policy = 'fully_decoupled'}\n"},
        Case{"ConvSyntheticGradient",
             std::string(kConv) + "boundary = {policy = 'synthetic_gradient'}\n"
                                  "optimizer = {name = 'adam', lr = 1e-4}\n"}),
    [](const auto& info) { return info.param.name; });

// An epoch of it has two batches of 16 samples and one of 6: a gradient that
// was made up for the first batch did not fit the third.
TEST(Rehearsal, RehearsalOfAnEpochWithAShortBatchIsOfWholeOnes) {
  for (const char* pipeline :
       {"", "pipeline = {order = '1f1b', micro_batches = 4}\n"}) {
    const auto rehearsals = rehearse(small_experiment(
        std::string("blocks = 2\nbatch_size = 16\ndata = {train = 38, test = "
                    "8}\n") +
        pipeline));
    EXPECT_GT(rehearsals.at(0).seconds.seconds[Op::backward], 0);
  }
}

class ForecastOfARun : public Program,
                       public testing::WithParamInterface<const char*> {
 protected:
  std::string config() const {
    return write("config.toml",
                 config_with("blocks = 2\nmodel = {hidden = [64, 48]}\n"
                             "boundary = {policy = 'local_loss'}\n"));
  }
  Outcome run(const std::string& dir, const std::string& more) const {
    return sluice(fmt::format("run {} engine={} {} --dir {}", config(),
                              GetParam(), more, path(dir)));
  }
};

TEST_P(ForecastOfARun, StandsBesideWhatItMeasuresAndChangesNoWeight) {
  ASSERT_EQ(run("plain", "").status, 0);
  const Outcome outcome = run("told", "forecast=true");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("peak MiB  forecast"), std::string::npos);
  const auto told = records_of(path("told"), "forecast");
  const auto measured = records_of(path("told"), "block");
  ASSERT_EQ(told.size(), 2U);
  for (const Record& block : measured) {
    const Record& said = by_block(told, block.integer("block"));
    EXPECT_EQ(said.integer("block"), block.integer("block"));
    EXPECT_EQ(said.integer("weights_bytes"), block.integer("weights_bytes"));
    EXPECT_GT(said.integer("peak_bytes", 1), 0);
  }
  const std::string weights = "/checkpoints/turn-000012/block-1.safetensors";
  EXPECT_EQ(slurp(path("plain") + weights), slurp(path("told") + weights));
}

TEST_P(ForecastOfARun, IsMadeOnce) {
  ASSERT_EQ(run("run", "forecast=true turns=6").status, 0);
  ASSERT_EQ(sluice("run --resume " + path("run") + " turns=12").status, 0);
  EXPECT_EQ(records_of(path("run"), "forecast").size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Engines, ForecastOfARun,
                         testing::Values("virtual", "threads", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

using ForecastOfACentre = ForecastOfARun;

// Memory of the server of three replicas: its weights, its momentum, and those
// that each replica has pulled; at rest a copy of these and the weights once
// more.
TEST_P(ForecastOfACentre, IsWhatReplica1Measures) {
  const std::string centre =
      "'optimizer={name=\"sgd\",lr=0.01,momentum=0.5}' forecast=true";
  const std::string free =
      centre + " schedule=free replicas.count=3 replicas.policy=server";
  ASSERT_EQ(run("free", free).status, 0);
  const auto told = records_of(path("free"), "forecast");
  ASSERT_EQ(told.size(), 2U);
  for (const Record& block : records_of(path("free"), "block")) {
    if (block.integer("replica") > 1) {
      EXPECT_EQ(block.integer("centre_bytes", -1), -1);
      continue;
    }
    const std::int64_t bytes = block.integer("centre_bytes");
    const auto weights = static_cast<double>(block.integer("weights_bytes"));
    EXPECT_NEAR(static_cast<double>(bytes), (2 * 5 + 1) * weights,
                0.2 * weights);
    const Record& said = by_block(told, block.integer("block"));
    EXPECT_EQ(said.integer("centre_bytes"), bytes);
    EXPECT_GE(said.integer("peak_bytes", bytes), bytes);
  }
  ASSERT_EQ(run("lockstep", centre).status, 0);
  for (const char* kind : {"forecast", "block"})
    for (const Record& block : records_of(path("lockstep"), kind))
      EXPECT_EQ(block.integer("centre_bytes", -1), -1);
}

INSTANTIATE_TEST_SUITE_P(Engines, ForecastOfACentre,
                         testing::Values("threads", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(Rehearsal, GrowsWithTheBatch) {
  if (!install_allocator())
    GTEST_SKIP() << "AddressSanitizer's allocator counts no bytes for us";
  const auto graph = [](const char* lines) {
    const ConfigNode config = parse_toml(config_of(lines), "config");
    return rehearse(read_experiment(config, "")).front().memory.graph_bytes;
  };
  EXPECT_GT(graph("batch_size = 64\n"), graph("batch_size = 32\n"));
}

}  // namespace sluice::rehearsal_test
