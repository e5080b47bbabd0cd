// FR: the labels R1-R8 are those of the specification (methods, section 3.5).
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/oracles/delay_oracle.h"

namespace sluice::features_replay_test {

constexpr const char* kNet =
    "blocks = ['0-1', '2', '3-']\n"
    "model = {hidden = [24, 20, 24], batch_norm = true}\n";
constexpr const char* kDropout =
    "blocks = ['0-1', '2', '3-']\n"
    "model = {hidden = [24, 20, 24], batch_norm = true, dropout = 0.3}\n";

std::string rate(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) + "}\n";
}

std::string replay(const std::string& statistics = "forward") {
  return "boundary = {policy = 'features_replay', statistics = '" + statistics +
         "'}\n";
}
constexpr const char* kBackprop = "boundary = {policy = 'backprop'}\n";
constexpr const char* kDelayed = "boundary = {policy = 'delayed_gradient'}\n";

Applications applications(const std::string& lines) {
  Training training(small_experiment(lines));
  return training.train_and_record();
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

void expect_same(const Applications& left, const Applications& right) {
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [block, updates] : left) {
    EXPECT_GT(updates.size(), 10U);
    EXPECT_EQ(difference(updates, right.at(block)), "") << "block " << block;
  }
}

TEST(FeaturesReplay, R1_OfOneBlockIsBackprop) {
  const std::string rest = "blocks = 1\nmodel = {hidden = [24]}\n" + rate(0.1);
  EXPECT_EQ(difference(trained(rest + replay()), trained(rest + kBackprop)),
            "");
}

TEST(FeaturesReplay, R2_WithoutLearningIsBackpropOfTheDelayedBatch) {
  expect_same(applications(kNet + rate(0) + replay()),
              applications(kNet + rate(0) + kBackprop));
}

TEST(FeaturesReplay, R5_WithoutLearningADropoutMaskIsThatOfItsBatch) {
  expect_same(applications(kDropout + rate(0) + replay()),
              applications(kDropout + rate(0) + kBackprop));
  EXPECT_NE(difference(applications(kNet + rate(0) + replay()).at(1),
                       applications(kDropout + rate(0) + replay()).at(1)),
            "");
}

TEST(FeaturesReplay, FollowsItsEquations) {
  const std::string lines = kNet + rate(0.1) + replay();
  const Applications expected =
      DelayOracle(Training(small_experiment(lines)),
                  {.weights = DelayOracle::Weights::of_today, .rate = 0.1})
          .train();
  expect_same(applications(lines), expected);
}

TEST(FeaturesReplay, R7_WithLearningIsNeitherDelayedGradientNorBackprop) {
  const std::string rest = kNet + rate(0.1);
  const auto mine = applications(rest + replay()).at(1);
  EXPECT_GT(distance(mine, applications(rest + kDelayed).at(1)), 1e-5);
  EXPECT_GT(distance(mine, applications(rest + kBackprop).at(1)), 1e-5);
}

TEST(FeaturesReplay, R7_TheGapToDelayedBackpropShrinksWithTheLearningRate) {
  // A smooth net: where a ReLU turns on or off, gradients jump.
  const auto gap = [](double lr) {
    const std::string rest =
        std::string("turns = 4\nblocks = ['0-1', '2-']\n") +
        "model = {hidden = [24, 20], activation = 'tanh'}\n" + rate(lr);
    return distance(applications(rest + replay()).at(1),
                    applications(rest + kDelayed).at(1));
  };
  EXPECT_EQ(gap(0), 0);
  EXPECT_GT(gap(0.01), 0);
  EXPECT_LT(gap(0.01), 0.5 * gap(0.04));
}

TEST(FeaturesReplay, R3_TheLastBlockIsThatOfBackprop) {
  // First update of block 3: the blocks below have not moved yet.
  const std::string rest = std::string("turns = 1\n") + kNet + rate(0.1);
  EXPECT_EQ(difference(applications(rest + replay()).at(3),
                       applications(rest + kBackprop).at(3)),
            "");
}

TEST(FeaturesReplay, R4_KeepsInputsOnly) {
  Training training(small_experiment(kNet + rate(0.1) + replay()));
  std::map<int, std::size_t> most;
  training.watch = [&](const TimedAction& timed) {
    Seat& worker = training.block(timed.seat);
    std::size_t& longest = most[timed.seat];
    longest = std::max(longest, worker.flights());
    // The last block's play is its graph pass.
    EXPECT_TRUE(timed.seat == 3 || worker.graphs() == 0);
  };
  training.train();
  EXPECT_EQ(most, (std::map<int, std::size_t>{{1, 3}, {2, 2}, {3, 1}}));
}

std::int64_t batches_tracked(const NamedTensors& weights,
                             const std::string& layer) {
  for (const auto& [name, tensor] : weights)
    if (name == "layers." + layer + ".norm.num_batches_tracked")
      return tensor.item<std::int64_t>();
  ADD_FAILURE() << "no norm in layer " << layer;
  return -1;
}

TEST(FeaturesReplay, R6_StatisticsMoveWhenTheConfigSays) {
  const std::string rest =
      std::string("drain = false\nblocks = ['0-1', '2', '3-']\n") +
      "model = {hidden = [24, 20, 24, 20], batch_norm = true}\n" + rate(0.1);
  const NamedTensors forward = trained(rest + replay("forward"));
  const NamedTensors replayed = trained(rest + replay("replay"));
  const NamedTensors both = trained(rest + replay("both"));
  for (const char* layer : {"0", "1"}) {  // of block 1, K - k = 2
    EXPECT_EQ(batches_tracked(forward, layer), 20);
    EXPECT_EQ(batches_tracked(replayed, layer), 18);
    EXPECT_EQ(batches_tracked(both, layer), 38);
  }
  for (const NamedTensors* weights : {&forward, &replayed, &both})
    EXPECT_EQ(batches_tracked(*weights, "3"), 20);  // of the last block
  EXPECT_EQ(
      batches_tracked(
          trained("drain = true\n" + rest.substr(14) + replay("both")), "0"),
      40);
}

TEST(FeaturesReplay, R8_AReplayWithUnchangedWeightsGivesThePlayedBits) {
  const Experiment experiment = small_experiment(kDropout + rate(0) + replay());
  Block block =
      make_block(experiment.model, 1, 0, 2, 1, MemoryFormat::contiguous);
  const UpdateChain update({}, block.parameters());
  const auto view =
      make_weight_view({.delay = 1, .weights = weights_at_backward("current")},
                       {.block = block, .update = update});
  Flight flight{.inputs = {at::randn({8, 1, 28, 28})},
                .pass = {.seed = 1, .batch = 3}};
  const at::Tensor played = view->forward(flight).at(0);
  EXPECT_FALSE(played.requires_grad());
  const at::Tensor replayed = view->graph_of(flight, 1).outputs.at(0);
  EXPECT_TRUE(replayed.requires_grad());
  EXPECT_TRUE(replayed.equal(played));
}

}  // namespace sluice::features_replay_test
