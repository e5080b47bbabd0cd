#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

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

TEST(Sgd, TakesBackAPartOfTheLastStepWhereItsMomentumIsBelow0) {
  const NamedTensors named = parameters({"w"});
  const auto optimizer = make_optimizer({.momentum = -0.5}, named);
  // Velocities 1, 0.5, 0.75.
  for (int step = 0; step < 3; ++step) optimizer->step({at::ones({2, 3})}, 0.1);
  EXPECT_NEAR(first(named[0].second), 1 - 0.1 - 0.05 - 0.075, 1e-6);
}

/// Every rule of the table.
class EveryOptimizer : public testing::TestWithParam<OptimizerRow> {
 protected:
  OptimizerOptions options() const {
    return {.name = std::string(GetParam().name), .momentum = kMomentum};
  }

 private:
  static constexpr double kMomentum = 0.9;
};

/// Gradient of weights [2, 3], another for every step.
at::Tensor gradient_of(int step) {
  return at::sin(at::arange(6).to(at::kFloat) + step).view({2, 3});
}

TEST_P(EveryOptimizer, LeavesAParameterWithoutGradientAlone) {
  const NamedTensors named = parameters({"w", "v"});
  OptimizerOptions with_decay = options();
  with_decay.weight_decay = 0.5;
  const auto optimizer = make_optimizer(with_decay, named);
  optimizer->step({gradient_of(0), gradient_of(0)}, 0.1);
  const at::Tensor before = named[0].second.clone();
  NamedTensors state;
  for (const auto& [name, tensor] : optimizer->state())
    state.emplace_back(name, tensor.clone());
  optimizer->step({{}, gradient_of(1)}, 0.1);
  EXPECT_TRUE(named[0].second.equal(before));
  EXPECT_FALSE(named[1].second.equal(before));
  const NamedTensors now = optimizer->state();
  for (std::size_t i = 0; i < now.size(); ++i)
    EXPECT_EQ(now[i].second.equal(state[i].second), now[i].first[0] == 'w')
        << now[i].first;
}

TEST_P(EveryOptimizer, TakesGradientsThatLieOtherwise) {
  const NamedTensors named = parameters({"w"});
  const NamedTensors same = parameters({"w"});
  const at::Tensor gradient = gradient_of(0);
  make_optimizer(options(), named)->step({gradient.clone()}, 0.1);
  make_optimizer(options(), same)->step({gradient.t().contiguous().t()}, 0.1);
  EXPECT_TRUE(named[0].second.equal(same[0].second));
}

TEST_P(EveryOptimizer, ContinuesFromItsStateWithTheSameBits) {
  const NamedTensors named = parameters({"w"});
  const NamedTensors resumed = parameters({"w"});
  const auto optimizer = make_optimizer(options(), named);
  for (int step = 0; step < 5; ++step)
    optimizer->step({gradient_of(step)}, 0.1);
  const auto fresh = make_optimizer(options(), resumed);
  resumed[0].second.copy_(named[0].second);
  const NamedTensors saved = optimizer->state();
  ASSERT_FALSE(saved.empty());
  for (const auto& [name, tensor] : fresh->state())
    for (const auto& [saved_name, value] : saved)
      if (name == saved_name) tensor.copy_(value);
  for (int step = 5; step < 10; ++step) {
    optimizer->step({gradient_of(step)}, 0.1);
    fresh->step({gradient_of(step)}, 0.1);
  }
  EXPECT_TRUE(resumed[0].second.equal(named[0].second));
}

TEST_P(EveryOptimizer, ItsStateMatters) {
  const NamedTensors named = parameters({"w"});
  const NamedTensors forgetful = parameters({"w"});
  const auto optimizer = make_optimizer(options(), named);
  for (int step = 0; step < 5; ++step) {
    // A last one that is small beside the momentum turns not even its sign.
    const at::Tensor gradient = gradient_of(0) * (step < 4 ? 1 : -1e-3);
    optimizer->step({gradient.clone()}, 0.1);
    make_optimizer(options(), forgetful)->step({gradient.clone()}, 0.1);
  }
  EXPECT_FALSE(forgetful[0].second.equal(named[0].second));
}

TEST_P(EveryOptimizer, ScalesRateAndDecayByGroup) {
  const NamedTensors named = parameters({"still", "decayed", "plain"});
  OptimizerOptions grouped = options();
  grouped.groups = {{{"still"}, 0, 0}, {{"decayed"}, 0.5, 1}};
  const auto optimizer = make_optimizer(grouped, named);
  for (int step = 0; step < 2; ++step)
    optimizer->step({gradient_of(step), gradient_of(step), gradient_of(step)},
                    0.1);
  EXPECT_EQ(first(named[0].second), 1);
  EXPECT_FALSE(named[1].second.equal(named[2].second));
  EXPECT_FALSE(named[0].second.equal(named[2].second));
}

TEST_P(EveryOptimizer, ComesNearTheMinimumOfAQuadratic) {
  const NamedTensors named = parameters({"w"});
  const auto optimizer = make_optimizer(options(), named);
  // A step of lars is a thousandth of the weights' length at rate 1.
  const double rate = GetParam().name == "lars" ? 300 : 3;
  for (int step = 0; step < 300; ++step)
    optimizer->step({named[0].second.clone()}, rate / (step + 30));
  EXPECT_LT(named[0].second.abs().max().item<double>(), 0.5);
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryOptimizer,
                         testing::ValuesIn(optimizers().begin(),
                                           optimizers().end()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

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
  EXPECT_NEAR(rate.at(0, 40, {10}), 0.1, 1e-12);
  EXPECT_NEAR(rate.at(9, 40, {10}), 1, 1e-12);
  EXPECT_EQ(rate.at(10, 40, {10}), 1);
}

TEST(LearningRate, NeverPassesItsBaseInAWarmUpOfHalfTurns) {
  const LearningRate rate{.base = 1, .warmup_epochs = 0.25};
  for (std::int64_t turn = 0; turn < 10; ++turn)
    EXPECT_LE(rate.at(turn, 40, {10}), 1) << turn;
}

TEST(LearningRate, DropsAtMilestones) {
  const LearningRate rate{.base = 1,
                          .schedule = RateSchedule::step,
                          .milestones = {1, 2},
                          .factor = 0.1};
  EXPECT_EQ(rate.at(9, 40, {10}), 1);
  EXPECT_NEAR(rate.at(10, 40, {10}), 0.1, 1e-12);
  EXPECT_NEAR(rate.at(20, 40, {10}), 0.01, 1e-12);
}

TEST(LearningRate, FollowsACosineAfterWarmUp) {
  const LearningRate rate{.base = 1,
                          .schedule = RateSchedule::cosine,
                          .warmup_epochs = 1,
                          .final_rate = 0.2};
  EXPECT_NEAR(rate.at(10, 30, {10}), 1, 1e-12);
  EXPECT_NEAR(rate.at(20, 30, {10}), 0.6, 1e-12);
  EXPECT_LT(rate.at(29, 30, {10}), 0.21);
}

TEST(LearningRate, WarmsUpForAsManyTurnsAsItIsTold) {
  const LearningRate rate{.base = 1, .warmup_epochs = 2, .warmup_turns = 4};
  EXPECT_NEAR(rate.at(0, 40, {10}), 0.25, 1e-12);
  EXPECT_NEAR(rate.at(3, 40, {10}), 1, 1e-12);
  EXPECT_EQ(rate.at(4, 40, {10}), 1);  // not 5 / 20, as by epochs
}

TEST(LearningRate, FallsInALineAfterWarmUp) {
  const LearningRate rate{.base = 1,
                          .schedule = RateSchedule::linear,
                          .warmup_turns = 10,
                          .final_rate = 0.2};
  EXPECT_EQ(rate.at(10, 30, {10}), 1);
  EXPECT_NEAR(rate.at(15, 30, {10}), 0.8, 1e-12);  // a cosine has 0.883
  EXPECT_NEAR(rate.at(29, 30, {10}), 0.24, 1e-12);
}

TEST(LearningRate, IsMultipliedInEachEpochWhateverTheEnd) {
  const LearningRate rate{.base = 1,
                          .schedule = RateSchedule::exponential,
                          .warmup_turns = 5,
                          .decay = 0.25};
  EXPECT_EQ(rate.at(5, 40, {10}), 1);
  EXPECT_NEAR(rate.at(10, 40, {10}), 0.5, 1e-12);
  EXPECT_NEAR(rate.at(15, 40, {10}), 0.25, 1e-12);
  EXPECT_EQ(rate.at(15, 400, {10}), rate.at(15, 40, {10}));
}

TEST(LearningRate, IsStableBetweenWarmUpAndCooldown) {
  const LearningRate rate{.base = 1,
                          .schedule = RateSchedule::warmup_stable_decay,
                          .warmup_turns = 4,
                          .cooldown = 0.25,
                          .final_rate = 0.2};
  EXPECT_NEAR(rate.at(1, 40, {10}), 0.5, 1e-12);
  for (const std::int64_t turn : {4, 15, 30})
    EXPECT_EQ(rate.at(turn, 40, {10}), 1) << turn;
  EXPECT_NEAR(rate.at(35, 40, {10}), 0.6, 1e-12);
  EXPECT_NEAR(rate.at(39, 40, {10}), 0.28, 1e-12);
}

TEST(LearningRate, LearningRateOfEachScheduleBeginsAtItsBaseAndNeverRises) {
  for (const RateScheduleRow& row : rate_schedules()) {
    const LearningRate rate{.base = 1,
                            .schedule = row.make,
                            .milestones = {1, 2},
                            .final_rate = 0.1};
    EXPECT_EQ(rate.at(0, 40, {10}), 1) << row.name;
    for (std::int64_t turn = 1; turn < 45; ++turn)
      EXPECT_LE(rate.at(turn, 40, {10}), rate.at(turn - 1, 40, {10}))
          << row.name;
    EXPECT_EQ(rate.at(39, 40, {10}) < 1, row.make != RateSchedule::constant)
        << row.name;
  }
}

TEST(LearningRate, StaysAtItsLastInADrain) {
  const LearningRate rate{.base = 1, .schedule = RateSchedule::cosine};
  EXPECT_EQ(rate.at(35, 30, {10}), rate.at(29, 30, {10}));
}

TEST(Clipping, ScalesToTheLimit) {
  Tensors gradients = {at::full({1}, 3.0), {}, at::full({1}, 4.0)};
  const at::Tensor norm = squared_norm(gradients).sqrt();
  EXPECT_DOUBLE_EQ(norm.item<double>(), 5);
  clip_to(1, norm, gradients);
  EXPECT_NEAR(squared_norm(gradients).sqrt().item<double>(), 1, 1e-6);
}

TEST(Clipping, LeavesSmallGradientsAlone) {
  Tensors gradients = {at::full({1}, 3.0)};
  clip_to(10, at::scalar_tensor(3.0, at::kDouble), gradients);
  EXPECT_EQ(gradients[0].item<double>(), 3);
}

TEST(Clipping, AddsUpTheSameBitsInParts) {
  const Tensors all = {at::rand({50}), at::rand({7, 9}), at::rand({13})};
  const at::Tensor upper = squared_norm({all[2]});
  EXPECT_EQ(
      squared_norm(all).item<double>(),
      squared_norm({all[0]}, squared_norm({all[1]}, upper)).item<double>());
}

}  // namespace sluice::optimizers_test
