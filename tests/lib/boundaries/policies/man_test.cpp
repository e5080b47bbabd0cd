// Momentum auxiliary networks: a head that follows the layer above it.
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::man_test {

constexpr const char* kBlocks = "blocks = ['0', '1', '2-']\n";

std::string config_of(const std::string& momentum) {
  return kBlocks +
         std::string(
             "model = {name = 'mlp', hidden = [48, 40]}\n"
             "boundary = {policy = 'local_loss', head = {name = "
             "'man', momentum = ") +
         momentum +
         "}}\n"
         "optimizer = {lr = 0.05, momentum = 0.9}\n";
}

NamedTensors weights_after(int turns, const std::string& momentum) {
  Training training(small_experiment(config_of(momentum)));
  training.experiment.length.turns = turns;
  if (turns > 0) training.train();
  return copies_of(training.weights());
}

at::Tensor find(const NamedTensors& weights, const std::string& name) {
  for (const auto& [found, tensor] : weights)
    if (found == name) return tensor;
  ADD_FAILURE() << name << " is not there";
  return {};
}

constexpr const char* kAverage = "heads.0.average_linear_weight";
constexpr const char* kFollowed = "layers.1.linear.weight";

TEST(Man, WithMomentumZeroHasTheWeightsOfTheLayerABatchAgo) {
  const NamedTensors six = weights_after(6, "0");
  EXPECT_TRUE(
      at::equal(find(six, kAverage), find(weights_after(5, "0"), kFollowed)));
  EXPECT_FALSE(at::equal(find(six, kAverage), find(six, kFollowed)));
}

TEST(Man, WithMomentumOneKeepsTheLayersFirstWeights) {
  const NamedTensors first = weights_after(0, "1");
  const NamedTensors six = weights_after(6, "1");
  EXPECT_TRUE(at::equal(find(six, kAverage), find(first, kAverage)));
  EXPECT_TRUE(at::equal(find(six, kAverage), find(first, kFollowed)));
  EXPECT_FALSE(at::equal(find(six, kFollowed), find(first, kFollowed)));
}

TEST(Man, IsTheAverageOfTheLayersWeightsSoFar) {
  at::Tensor average = find(weights_after(0, "0.75"), kFollowed).clone();
  // Turn t hands down the weights after t turns.
  for (int turn = 0; turn < 4; ++turn)
    average =
        0.75 * average + 0.25 * find(weights_after(turn, "0.75"), kFollowed);
  EXPECT_TRUE(at::allclose(find(weights_after(4, "0.75"), kAverage), average,
                           1e-6, 1e-7));
}

TEST(Man, TrainsTheCorrectionAndTheHeadBehindIt) {
  const NamedTensors first = weights_after(0, "0.9");
  const NamedTensors later = weights_after(2, "0.9");
  for (const char* name :
       {"heads.0.correction.linear.weight", "heads.0.head.classifier.weight"})
    EXPECT_FALSE(at::equal(find(first, name), find(later, name))) << name;
}

class ManOn : public Program {};

TEST_F(ManOn, EveryEngineGivesTheSameBits) {
  const std::string config = write("c.toml", config_with(config_of("0.9")));
  const NamedTensors expected = weights_on("virtual", config);
  EXPECT_EQ(difference(weights_on("threads", config), expected), "");
  EXPECT_EQ(difference(weights_on("processes", config), expected), "");
}

TEST_F(ManOn, ARunThatIsContinuedGivesTheSameBits) {
  const std::string config = write("c.toml", config_with(config_of("0.9")));
  const auto run = [&](const std::string& dir, const std::string& more) {
    const Outcome outcome = sluice("run " + config + " engine=virtual --dir " +
                                   path(dir) + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return path(dir) + "/checkpoints";
  };
  const std::string whole = run("whole", "");
  const std::string part = run("part", "turns=7");
  const Outcome resumed = sluice("run --resume " + path("part") + " turns=12");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(difference(load_weights(checkpoint_folder(whole, 12)),
                       load_weights(checkpoint_folder(part, 12))),
            "");
}

// Issue 18, item 6: averages begin as the layers do, wherever these come from.
TEST_F(ManOn, AveragesBeginAsTheInitialWeightsDo) {
  NamedTensors theirs;
  for (const auto& [name, tensor] : weights_after(0, "0.9"))
    if (name.starts_with("layers.")) theirs.emplace_back(name, tensor + 1);
  const std::string file = path("theirs.safetensors");
  write_safetensors(file, theirs);
  const std::string config = write("c.toml", config_with(config_of("0.9")));
  const Outcome outcome =
      sluice("run " + config + " turns=0 checkpoint.initial=true --dir " +
             path("run") + " initial_weights=" + file);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const NamedTensors first =
      load_weights(checkpoint_folder(path("run/checkpoints"), 0));
  EXPECT_TRUE(at::equal(find(first, kAverage), find(theirs, kFollowed)));
}

TEST_F(ManOn, AveragesOfThoseWhoSavedThemAreTaken) {
  NamedTensors theirs = weights_after(0, "0.9");
  for (auto& [name, tensor] : theirs)
    if (name == kAverage) tensor = tensor + 1;
  const std::string file = path("theirs.safetensors");
  write_safetensors(file, theirs);
  const Experiment experiment =
      small_experiment(config_of("0.9") + "initial_weights = '" + file + "'\n");
  const NamedTensors first = Training(experiment).weights();
  EXPECT_TRUE(at::equal(find(first, kAverage), find(theirs, kAverage)));
}

TEST_F(ManOn, AveragesOfANewBoundaryBeginAsTheLayersOfTheCheckpoint) {
  const std::string config = write("c.toml", config_with(config_of("1")));
  const Outcome outcome = sluice(
      "run " + config + " turns=6 \"blocks=['0','1-']\" --dir " + path("run"));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto saved = [&](std::int64_t turn) {
    return load_weights(checkpoint_folder(path("run/checkpoints"), turn));
  };
  const NamedTensors before = saved(6);
  const Outcome resumed = sluice("run --resume " + path("run") +
                                 " turns=12 \"blocks=['0','1','2-']\"");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  constexpr const char* kNext = "layers.2.linear.weight";
  const NamedTensors after = saved(12);
  EXPECT_TRUE(at::equal(find(after, "heads.1.average_linear_weight"),
                        find(before, kNext)));
  EXPECT_FALSE(at::equal(find(after, kNext), find(before, kNext)));
}

}  // namespace sluice::man_test
