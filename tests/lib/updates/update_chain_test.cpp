#include "lib/updates/update_chain.h"

#include <cmath>
#include <optional>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace sluice::update_chain_test {

NamedTensors two_weights() {
  return {{"w", at::zeros({1})}, {"v", at::zeros({1})}};
}

/// What the optimizer gets of gradients 3 and 4.
std::vector<double> passed_on(const UpdateOptions& options, UpdateInfo info) {
  const NamedTensors named = two_weights();
  Tensors gradients = {at::full({1}, 3.0), at::full({1}, 4.0)};
  UpdateChain(options, named).apply(gradients, std::move(info));
  return {gradients[0].item<double>(), gradients[1].item<double>()};
}

UpdateOptions clipped_to(double norm) {
  return {.optimizer = {.clip_norm = norm}};
}

TEST(UpdateChain, WithoutLinksIsTheOptimizer) {
  const NamedTensors named = two_weights();
  Tensors gradients = {at::full({1}, 3.0), at::full({1}, 4.0)};
  EXPECT_EQ(UpdateChain({}, named).apply(gradients, {.rate = 0.5}), 0.5);
  EXPECT_EQ(named[0].second.item<double>(), -1.5);
  EXPECT_EQ(named[1].second.item<double>(), -2);
}

TEST(UpdateChain, KeepsTheSumOfAWindowUnlessItsMeanIsWanted) {
  const UpdateInfo two_turns{.batches = 2, .turns = 2};
  EXPECT_EQ(passed_on({}, two_turns), (std::vector<double>{3, 4}));
  EXPECT_EQ(passed_on({.mean = true}, two_turns),
            (std::vector<double>{1.5, 2}));
}

TEST(UpdateChain, MeanIsOverTurnsNotOverTheirBatches) {
  EXPECT_EQ(passed_on({.mean = true}, {.batches = 8, .turns = 2}),
            (std::vector<double>{1.5, 2}));
  EXPECT_EQ(passed_on({.mean = true}, {.batches = 4, .turns = 1}),
            (std::vector<double>{3, 4}));
}

TEST(UpdateChain, ClipsTheNormOfTheBlock) {
  const auto clipped = passed_on(clipped_to(1), {});
  EXPECT_NEAR(clipped[0], 0.6, 1e-6);
  EXPECT_NEAR(clipped[1], 0.8, 1e-6);
  EXPECT_EQ(passed_on(clipped_to(6), {}), (std::vector<double>{3, 4}));
}

TEST(UpdateChain, ClipsByTheNormOfTheModelWhereItIsKnown) {
  const auto clipped = passed_on(
      clipped_to(1), {.model_norm = at::scalar_tensor(10.0, at::kDouble)});
  EXPECT_NEAR(clipped[0], 0.3, 1e-6);
  EXPECT_NEAR(clipped[1], 0.4, 1e-6);
}

TEST(UpdateChain, ClipsTheMeanNotTheSum) {
  UpdateOptions options = clipped_to(3);
  options.mean = true;
  EXPECT_EQ(passed_on(options, {.batches = 2, .turns = 2}),
            (std::vector<double>{1.5, 2}));
}

TEST(UpdateChain, WritesNoGradientInPlace) {
  const NamedTensors named = two_weights();
  const Tensors held = {at::full({1}, 3.0), at::full({1}, 4.0)};
  Tensors gradients = held;
  UpdateOptions options = clipped_to(1);
  options.mean = true;
  UpdateChain(options, named).apply(gradients, {.batches = 2, .turns = 2});
  EXPECT_EQ(held[0].item<double>(), 3);
  EXPECT_EQ(held[1].item<double>(), 4);
}

TEST(UpdateChain, LeavesUndefinedGradientsSo) {
  const NamedTensors named = two_weights();
  Tensors gradients = {{}, at::full({1}, 4.0)};
  UpdateOptions options = clipped_to(1);
  options.mean = true;
  UpdateChain(options, named)
      .apply(gradients, {.batches = 2, .turns = 2, .rate = 1});
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_EQ(named[0].second.item<double>(), 0);
  EXPECT_NEAR(named[1].second.item<double>(), -1, 1e-6);
}

TEST(UpdateChain, RateOfATurnIsTheSchedules) {
  const LearningRate rate{.base = 1, .schedule = RateSchedule::cosine};
  const UpdateChain chain({.optimizer = {.learning_rate = rate}},
                          two_weights());
  EXPECT_EQ(chain.rate_at(7, 30, {10}), rate.at(7, 30, {10}));
  EXPECT_LT(chain.rate_at(7, 30, {10}), 1);
}

TEST(UpdateChain, ContinuesFromItsState) {
  const NamedTensors named = two_weights();
  const NamedTensors resumed = two_weights();
  const UpdateOptions options{.optimizer = {.momentum = 0.5}};
  UpdateChain chain(options, named);
  Tensors gradients = {at::full({1}, 3.0), at::full({1}, 4.0)};
  chain.apply(gradients, {.rate = 1});
  UpdateChain fresh(options, resumed);
  ASSERT_EQ(fresh.state().size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    fresh.state()[i].second.copy_(chain.state()[i].second);
    resumed[i].second.copy_(named[i].second);
  }
  chain.apply(gradients, {.rate = 1});
  fresh.apply(gradients, {.rate = 1});
  EXPECT_EQ(named[0].second.item<double>(), -3 - 4.5);
  EXPECT_TRUE(named[0].second.equal(resumed[0].second));
  EXPECT_TRUE(named[1].second.equal(resumed[1].second));
}

}  // namespace sluice::update_chain_test
