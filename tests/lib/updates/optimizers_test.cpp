#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/updates/clipping.h"
#include "lib/updates/learning_rate.h"
#include "lib/updates/optimizer.h"

namespace sluice::optimizers_test {

NamedTensors parameters(std::initializer_list<const char*> names) {
  NamedTensors named;
  for (const char* name : names) named.emplace_back(name, at::ones({2, 3}));
  return named;
}

double first(const at::Tensor& tensor) {
  return tensor[0][0].item<double>();
}

TEST(Sgd, StepsAgainstTheGradient) {
  const NamedTensors named = parameters({"w"});
  make_optimizer({}, named)->step({at::full({2, 3}, 2.0)}, 0.25);
  EXPECT_EQ(first(named[0].second), 0.5);
}

TEST(Sgd, KeepsItsVelocityInItsState) {
  const NamedTensors named = parameters({"w"});
  const auto optimizer = make_optimizer({.momentum = 0.5}, named);
  for (int step = 0; step < 2; ++step) optimizer->step({at::ones({2, 3})}, 0.1);
  EXPECT_EQ(optimizer->state().at(0).first, "w.momentum");
  EXPECT_EQ(first(optimizer->state().at(0).second), 1.5);
  EXPECT_NEAR(first(named[0].second), 1 - 0.1 - 0.15, 1e-6);
}

TEST(Optimizer, LeavesAParameterWithoutGradientAlone) {
  for (const char* name : {"sgd", "adam", "adamw"}) {
    const NamedTensors named = parameters({"w", "v"});
    const auto optimizer = make_optimizer(
        {.name = name, .weight_decay = 0.5, .momentum = 0.9}, named);
    optimizer->step({{}, at::ones({2, 3})}, 0.1);
    EXPECT_EQ(first(named[0].second), 1) << name;
    EXPECT_NE(first(named[1].second), 1) << name;
  }
}

TEST(Optimizer, TakesGradientsThatLieOtherwise) {
  for (const char* name : {"sgd", "adam"}) {
    const NamedTensors named = {{"w", at::zeros({2, 3})}};
    const NamedTensors same = {{"w", at::zeros({2, 3})}};
    const at::Tensor gradient = at::rand({2, 3});
    make_optimizer({.name = name}, named)->step({gradient.clone()}, 0.1);
    make_optimizer({.name = name}, same)
        ->step({gradient.t().contiguous().t()}, 0.1);
    EXPECT_TRUE(named[0].second.equal(same[0].second)) << name;
  }
}

TEST(ParameterGroups, ChangeDecayAndRateOfTheNamesTheyMatch) {
  const NamedTensors named =
      parameters({"layers.0.linear.weight", "layers.0.linear.bias",
                  "layers.0.norm.weight"});
  OptimizerOptions options{.weight_decay = 0.5};
  options.groups = {{{"*.bias"}, 0, 2}, {{"*norm*", "*.bias"}, 0, 1}};
  make_optimizer(options, named)
      ->step({at::ones({2, 3}), at::ones({2, 3}), at::ones({2, 3})}, 0.1);
  EXPECT_NEAR(first(named[0].second), 1 - 0.1 * 1.5, 1e-6);
  EXPECT_NEAR(first(named[1].second), 1 - 0.2, 1e-6);
  EXPECT_NEAR(first(named[2].second), 1 - 0.1, 1e-6);
}

TEST(LearningRate, RisesDuringWarmUp) {
  const LearningRate rate{.base = 1, .warmup_epochs = 1};
  EXPECT_NEAR(rate.at(0, 40, 10), 0.1, 1e-12);
  EXPECT_NEAR(rate.at(9, 40, 10), 1, 1e-12);
  EXPECT_EQ(rate.at(10, 40, 10), 1);
}

TEST(LearningRate, NeverPassesItsBaseInAWarmUpOfHalfTurns) {
  const LearningRate rate{.base = 1, .warmup_epochs = 0.25};
  for (std::int64_t turn = 0; turn < 10; ++turn)
    EXPECT_LE(rate.at(turn, 40, 10), 1) << turn;
}

TEST(LearningRate, DropsAtMilestones) {
  const LearningRate rate{
      .base = 1, .schedule = "step", .milestones = {1, 2}, .factor = 0.1};
  EXPECT_EQ(rate.at(9, 40, 10), 1);
  EXPECT_NEAR(rate.at(10, 40, 10), 0.1, 1e-12);
  EXPECT_NEAR(rate.at(20, 40, 10), 0.01, 1e-12);
}

TEST(LearningRate, FollowsACosineAfterWarmUp) {
  const LearningRate rate{
      .base = 1, .schedule = "cosine", .warmup_epochs = 1, .final_rate = 0.2};
  EXPECT_NEAR(rate.at(10, 30, 10), 1, 1e-12);
  EXPECT_NEAR(rate.at(20, 30, 10), 0.6, 1e-12);
  EXPECT_LT(rate.at(29, 30, 10), 0.21);
}

TEST(LearningRate, StaysAtItsLastInADrain) {
  const LearningRate rate{.base = 1, .schedule = "cosine"};
  EXPECT_EQ(rate.at(35, 30, 10), rate.at(29, 30, 10));
}

TEST(Clipping, ScalesToTheLimit) {
  Tensors gradients = {at::full({1}, 3.0), {}, at::full({1}, 4.0)};
  const double norm = std::sqrt(squared_norm(gradients, 0));
  EXPECT_DOUBLE_EQ(norm, 5);
  clip_to(1, norm, gradients);
  EXPECT_NEAR(std::sqrt(squared_norm(gradients, 0)), 1, 1e-6);
}

TEST(Clipping, LeavesSmallGradientsAlone) {
  Tensors gradients = {at::full({1}, 3.0)};
  clip_to(10, 3, gradients);
  EXPECT_EQ(gradients[0].item<double>(), 3);
}

TEST(Clipping, AddsUpTheSameBitsInParts) {
  const Tensors all = {at::rand({50}), at::rand({7, 9}), at::rand({13})};
  const double upper = squared_norm({all[2]}, 0);
  EXPECT_EQ(squared_norm(all, 0),
            squared_norm({all[0]}, squared_norm({all[1]}, upper)));
}

}  // namespace sluice::optimizers_test
