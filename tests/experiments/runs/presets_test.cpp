// Published names (`sluice list methods`): the keys that their pages say make
// what was published, in whole runs against what is written out here.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/presets/published.h"
#include "experiments/config/reading/read_experiment.h"
#include "lib/base/by_block.h"
#include "lib/metrics/record.h"
#include "tests/oracles/delay_oracle.h"

namespace sluice::presets_test {

namespace fs = std::filesystem;
using Weights = DelayOracle::Weights;

constexpr const char* kThree = "['0-1', '2-3', '4-']";
constexpr double kRate = 0.1;  // the default

std::string config_of(std::string_view name) {
  return find_row(presets(), name, "preset").make->config();
}

std::string net(std::string_view preset, const char* blocks = kThree) {
  return std::string("blocks = ") + blocks + "\nturns = 30\n" +
         "model = {hidden = [24, 20, 24, 20, 16]}\n" + config_of(preset);
}

Applications applications(const std::string& lines) {
  return Training(small_experiment(lines)).train_and_record();
}

Applications expected(const std::string& lines, DelayOracle::Method method) {
  return DelayOracle(Training(small_experiment(lines)), method).train();
}

void expect_bits(std::string_view preset, const DelayOracle::Method& method) {
  const Applications ours = applications(net(preset));
  ASSERT_EQ(ours.size(), 3U);
  for (const auto& [block, updates] : expected(net(preset), method)) {
    EXPECT_EQ(updates.size(), 30U);
    EXPECT_EQ(difference(ours.at(block), updates), "") << "block " << block;
  }
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

/// w(t+1) = w(t) - rate gradient(w_1(t-K+1), ..., w_K(t)).
TEST(Presets, PipeDreamIsDelayedGradientsAtTheWeightsOfTheirForwards) {
  expect_bits("pipedream", {.weights = Weights::of_forward, .rate = kRate});
}

/// Per block F(t), B(t - (K - k)), U.
TEST(Presets, PipeDreamHasItsOrderOfActions) {
  const Experiment experiment = small_experiment(net("pipedream"));
  for (int block = 1; block <= 3; ++block) {
    std::int64_t forwards = 0;
    std::int64_t backwards = 0;
    for (const Action& action : actions_of(
             by_block(experiment.plans[0].blocks, block), {.end_turn = 8})) {
      if (action.op == Op::forward) {
        EXPECT_EQ(action.batch, forwards++);
      }
      if (action.op != Op::backward) continue;
      EXPECT_EQ(action.batch, backwards++);
      EXPECT_EQ(action.batch, forwards - 1 - (3 - block));
    }
    EXPECT_EQ(backwards, 8 - (3 - block));
  }
}

TEST(Presets, PipeDreamMixedMeetsOldActivationsWithNewWeights) {
  expect_bits("pipedream_mixed", {.weights = Weights::mixed, .rate = kRate});
}

TEST(Presets, VerticalSyncHasOneStalenessInAllBlocks) {
  class Staleness final : public Sink {
   public:
    void write(const Record& record) override {
      if (record.text("kind") == "train" && record.number("turn", 0) >= 4)
        seen.insert(record.number("d_upd", -1));
    }
    std::set<double> seen;
  };
  const auto sink = std::make_shared<Staleness>();
  Training(small_experiment(net("vertical_sync")), sink).train();
  EXPECT_EQ(sink->seen, std::set<double>{2});
}

TEST(Presets, PipelinedBackpropIsLateByTwoTicksForEachBlockAbove) {
  expect_bits("pipelined_backprop",
              {.delay = 2, .weights = Weights::mixed, .rate = kRate});
}

TEST(Presets, PipeDream2bwHasTheBitsOfOneBlock) {
  EXPECT_EQ(difference(trained(net("pipedream_2bw")),
                       trained(net("pipedream_2bw", "1"))),
            "");
}

TEST(Presets, PresetsOfExactPipelinesHaveTheBitsOfOneBlock) {
  const NamedTensors stale = trained(net("pipedream_2bw", "1"));
  for (const char* name : {"gpipe", "pipedream_flush", "zb_h1"}) {
    const NamedTensors one = trained(net(name, "1"));
    EXPECT_EQ(difference(trained(net(name)), one), "") << name;
    EXPECT_GT(distance(one, stale), 1e-5) << name;
  }
}

/// T1 and T2.
TEST(Presets, PipeMareSlowsDownAndMovesItsWeightsBack) {
  DelayOracle::Method method{.weights = Weights::mixed, .velocity_decay = 0.1};
  method.update = [](const DelayOracle::Update& update) {
    const auto staleness = static_cast<double>(update.staleness);
    const double power = 1 - static_cast<double>(update.turn) / 1000;
    const double rate = kRate / std::pow(std::max(1.0, staleness), power);
    for (std::size_t i = 0; i < update.weights.size(); ++i)
      update.weights[i] = update.weights[i] - update.gradients[i] * rate;
  };
  const std::string lines = net("pipemare");
  const Applications ours = applications(lines);
  const Applications theirs = expected(lines, method);
  for (const auto& [block, updates] : ours)
    EXPECT_LT(distance(updates, theirs.at(block)), 1e-6) << "block " << block;
  EXPECT_GT(distance(ours.at(1), applications(net("pipedream_mixed")).at(1)),
            1e-5);
}

TEST(Presets, EachConfigIsRead) {
  const fs::path folder =
      fs::path(SLUICE_TEST_FOLDER) / "../experiments/configs";
  for (const PresetRow& row : presets()) {
    const fs::path file = folder / (row.make->file + ".toml");
    EXPECT_NO_THROW(read_experiment(read_config_file(file.string()), ""))
        << row.name;
  }
}

TEST(Presets, EachConfigOfReplicasIsOne) {
  const fs::path folder =
      fs::path(SLUICE_TEST_FOLDER) / "../experiments/configs/replicas";
  std::set<std::string> names;
  for (const PresetRow& row : presets())
    if (row.make->is_of_replicas()) names.emplace(row.name);
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files.insert(entry.path().stem().string());
  EXPECT_EQ(files, names);
}

std::string net_of_replicas(std::string_view preset) {
  return "turns = 22\nevaluate_every = 0.0\nmodel = {hidden = [24, 20]}\n" +
         (preset.empty() ? "" : config_of(preset));
}

/// By the preset's keys alone, and not as one replica would.
TEST(Presets, PresetsOfReplicasTrain) {
  const NamedTensors one = trained(net_of_replicas(""));
  for (const PresetRow& row : presets()) {
    if (!row.make->is_of_replicas()) continue;
    const NamedTensors weights = trained(net_of_replicas(row.name));
    EXPECT_GT(distance(weights, one), 1e-5) << row.name;
    for (const auto& [name, tensor] : weights)
      EXPECT_TRUE(tensor.isfinite().all().item<bool>())
          << row.name << ": " << name;
  }
}

TEST(Presets, PresetsOfReplicasAreNotEachOther) {
  const NamedTensors synchronous = trained(net_of_replicas("synchronous_sgd"));
  EXPECT_EQ(difference(trained(net_of_replicas("zero_1")), synchronous), "");
  EXPECT_GT(distance(trained(net_of_replicas("local_sgd")), synchronous), 1e-5);
  EXPECT_GT(distance(trained(net_of_replicas("dc_asgd")),
                     trained(net_of_replicas("downpour"))),
            1e-7);
}

}  // namespace sluice::presets_test
