// The probe of each layer: local against global gradients over depth.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "lib/blocks/layer_names.h"
#include "lib/metrics/records.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::layer_probe_test {

constexpr const char* kNet =
    "turns = 12\nblocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n";

std::string rate(double lr) {
  return fmt::format("optimizer = {{lr = {}}}\n", lr);
}
std::string policy(const std::string& name) {
  return fmt::format("boundary = {{policy = '{}'}}\n", name);
}

class RecordList final : public Sink {
 public:
  void write(const Record& record) override { records.push_back(record); }
  std::vector<Record> of(const std::string& kind) const {
    std::vector<Record> found;
    for (const Record& record : records)
      if (record.text("kind") == kind) found.push_back(record);
    return found;
  }
  std::vector<Record> records;
};

TEST(LayerOfName, IsItsPlaceInTheModel) {
  EXPECT_EQ(layer_of_name("layers.12.conv.weight"), 12);
  EXPECT_EQ(layer_of_name("layers.0.weight"), 0);
  for (const char* other : {"heads.1.weight", "layers.", "layers.x.weight",
                            "layers.3", "layers.3weight", ""})
    EXPECT_FALSE(layer_of_name(other)) << other;
}

constexpr const char* kDeepBlock =
    "turns = 12\nblocks = ['0-1', '2']\nmodel = {hidden = [24, 20]}\n";

std::vector<Record> probed_layers(const std::string& lines) {
  const auto kept = std::make_shared<RecordList>();
  Training training(
      small_experiment(lines + "probe = {every = 1, layers = true}\n"), kept);
  training.train();
  return kept->of("layer_probe");
}

/// What the probe says of a layer in a turn, by plain arithmetic.
struct OracleLikeness {
  double cosine = 0;
  double norm_ratio = 0;
  double sign_agreement = 0;
};
OracleLikeness compared(const at::Tensor& applied, const at::Tensor& truth) {
  return {
      (applied.dot(truth) / (applied.norm() * truth.norm())).item<double>(),
      (applied.norm() / truth.norm()).item<double>(),
      applied.sign().eq(truth.sign()).to(at::kDouble).mean().item<double>()};
}

/// Likeness of block 1's layers under DDG, by (turn, layer): the block applies
/// the batch of the turn before at the weights of then.
std::map<std::pair<std::int64_t, int>, OracleLikeness> layers_of_ddg() {
  Training training(
      small_experiment(kDeepBlock + rate(0.5) + policy("delayed_gradient")));
  SampleSource source(training.experiment.data->train.samples(),
                      {.batch_size = 32, .seed = training.experiment.seed});
  // Weights of all layers before each turn of their block.
  std::map<std::int64_t, std::map<std::string, at::Tensor>> before;
  const auto keep = [&](int block, std::int64_t turn) {
    for (const auto& [name, tensor] : training.block(block).weights())
      before[turn][name] = tensor.detach().clone();
  };
  for (int block = 1; block <= 2; ++block) keep(block, 0);
  training.watch = [&](const TimedAction& timed) {
    keep(timed.seat, timed.action.turn + 1);
  };
  training.train();
  const auto gradients = [&](std::int64_t batch, std::int64_t turn) {
    const Batch data = source.batch(batch);
    Tensors leaves;
    at::Tensor x = data.inputs.flatten(1);
    for (int layer = 0; layer < 3; ++layer) {
      const std::string name = fmt::format("layers.{}.linear.", layer);
      const auto& weights = before.at(turn);
      leaves.push_back(weights.at(name + "weight").clone().requires_grad_());
      leaves.push_back(weights.at(name + "bias").clone().requires_grad_());
      x = at::linear(x, leaves[leaves.size() - 2], leaves.back());
      if (layer < 2) x = at::relu(x);
    }
    const auto all =
        torch::autograd::grad({at::cross_entropy_loss(x, data.labels)}, leaves);
    Tensors by_layer;
    for (std::size_t i = 0; i < all.size(); i += 2)
      by_layer.push_back(
          at::cat({all[i].flatten(), all[i + 1].flatten()}).to(at::kDouble));
    return by_layer;
  };
  std::map<std::pair<std::int64_t, int>, OracleLikeness> found;
  for (std::int64_t turn = 1; turn < 12; ++turn) {
    const Tensors applied = gradients(turn - 1, turn - 1);
    const Tensors truth = gradients(turn - 1, turn);
    for (int layer = 0; layer < 2; ++layer)
      found[{turn, layer}] =
          compared(applied.at(static_cast<std::size_t>(layer)),
                   truth.at(static_cast<std::size_t>(layer)));
  }
  return found;
}

TEST(LayerProbes, LayerProbesOfADelayedGradientAreThoseOfPlainAutograd) {
  const auto expected = layers_of_ddg();
  std::map<std::int64_t, std::map<int, double>> cosines;  // by turn and layer
  for (const Record& record :
       probed_layers(kDeepBlock + rate(0.5) + policy("delayed_gradient"))) {
    const auto said = record.as<records::LayerProbe>();
    ASSERT_TRUE(said);
    if (said->block == 2) {
      EXPECT_EQ(said->layer, 2);
      EXPECT_NEAR(said->cosine, 1, 1e-6);
      continue;
    }
    const auto found = expected.find({said->turn, said->layer});
    if (found == expected.end()) continue;
    cosines[said->turn][said->layer] = said->cosine;
    EXPECT_EQ(said->batch, said->turn - 1);
    EXPECT_NEAR(said->cosine, found->second.cosine, 1e-5);
    EXPECT_NEAR(said->norm_ratio, found->second.norm_ratio, 1e-4);
    EXPECT_NEAR(said->sign_agreement, found->second.sign_agreement, 0.01);
  }
  ASSERT_EQ(cosines.size(), 11U);
  double least = 1;
  double apart = 0;
  for (const auto& [turn, by_layer] : cosines) {
    ASSERT_EQ(by_layer.size(), 2U) << turn;
    least = std::min(least, by_layer.at(0));
    apart = std::max(apart, std::abs(by_layer.at(0) - by_layer.at(1)));
  }
  EXPECT_LT(least, 0.999) << "nothing was stale";
  EXPECT_GT(apart, 1e-3) << "each layer would be as true as its block";
}

TEST(LayerProbes, LayerProbesOfABlockOfOneLayerAreThoseOfTheBlock) {
  const auto kept = std::make_shared<RecordList>();
  Training training(small_experiment(kNet + rate(0.1) + policy("local_loss") +
                                     "probe = {every = 4, layers = true}\n"),
                    kept);
  training.train();
  // A block of one layer is as true as that layer.
  const auto blocks = kept->of("probe");
  const auto layers = kept->of("layer_probe");
  ASSERT_EQ(blocks.size(), layers.size());
  ASSERT_EQ(blocks.size(), 9U) << "3 blocks, turns 0, 4 and 8";
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(layers[i].integer("layer", -1), blocks[i].integer("block") - 1);
    for (const char* figure : {"cosine", "norm_ratio", "sign_agreement"})
      EXPECT_EQ(layers[i].number(figure, -1), blocks[i].number(figure, -2));
  }
}

TEST(LayerProbes, AreThereWhenAskedForAlone) {
  const auto kept = std::make_shared<RecordList>();
  Training training(
      small_experiment(std::string(kNet) + rate(0.1) + "probe = {every = 4}\n"),
      kept);
  training.train();
  EXPECT_FALSE(kept->of("probe").empty());
  EXPECT_TRUE(kept->of("layer_probe").empty());
}

}  // namespace sluice::layer_probe_test
