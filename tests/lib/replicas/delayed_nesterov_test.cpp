// The outer optimizer of a server that replicas push movements to (H3).
#include "lib/replicas/delayed_nesterov.h"

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

namespace sluice::delayed_nesterov_test {

at::Tensor start() {
  return at::arange(6, at::kDouble);
}

std::vector<at::Tensor> some_movements(int count) {
  at::manual_seed(3);
  std::vector<at::Tensor> all;
  for (int i = 0; i < count; ++i) all.push_back(at::randn(6, at::kDouble));
  return all;
}

/// Weights after each of the pushes.
std::vector<at::Tensor> pushed(const PushedStep& step,
                               const std::vector<at::Tensor>& movements) {
  const NamedTensors weights = {{"w", start()}};
  const DelayedNesterov outer(step, weights);
  std::vector<at::Tensor> all;
  for (const at::Tensor& moved : movements) {
    outer.push(weights, {moved});
    all.push_back(weights[0].second.clone());
  }
  return all;
}

/// PyTorch's SGD with Nesterov's momentum by these gradients.
at::Tensor stepped(const std::vector<at::Tensor>& gradients) {
  at::Tensor weight = start();
  torch::optim::SGD sgd(
      std::vector<at::Tensor>{weight},
      torch::optim::SGDOptions(0.7).momentum(0.9).nesterov(true));
  for (const at::Tensor& gradient : gradients) {
    weight.mutable_grad() = gradient;
    sgd.step();
  }
  return weight;
}

double apart(const at::Tensor& left, const at::Tensor& right) {
  return (left - right).abs().max().item<double>();
}

PushedStep step_of(std::int64_t every) {
  return {.outer = {.learning_rate = 0.7, .momentum = 0.9}, .every = every};
}

TEST(DelayedNesterov, StepOfOnePushIsNesterovsMomentum) {
  const auto movements = some_movements(5);
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& moved : movements) gradients.push_back(-moved);
  EXPECT_LT(apart(pushed(step_of(1), movements).back(), stepped(gradients)),
            1e-12);
}

TEST(DelayedNesterov, StepOfSeveralPushesIsNesterovsOnTheirMean) {
  const auto movements = some_movements(6);
  std::vector<at::Tensor> means;
  for (std::size_t i = 0; i < 6; i += 3)
    means.push_back(-(movements[i] + movements[i + 1] + movements[i + 2]) / 3);
  const auto after = pushed(step_of(3), movements);
  EXPECT_LT(apart(after.back(), stepped(means)), 1e-12);
  EXPECT_GT(apart(pushed(step_of(1), movements).back(), stepped(means)), 1e-3);
  // In between each push moves the weights by its own part alone.
  EXPECT_LT(apart(after[0], start() + 0.7 / 3 * movements[0]), 1e-12);
}

TEST(DelayedNesterov, GoesOnFromItsState) {
  const auto movements = some_movements(6);
  const auto whole = pushed(step_of(4), movements);
  const NamedTensors weights = {{"w", start()}};
  const DelayedNesterov first(step_of(4), weights);
  for (int i = 0; i < 3; ++i)
    first.push(weights, {movements[static_cast<std::size_t>(i)]});
  const DelayedNesterov second(step_of(4), weights);
  const NamedTensors saved = first.state();
  const NamedTensors restored = second.state();
  ASSERT_EQ(saved.size(), restored.size());
  for (std::size_t i = 0; i < saved.size(); ++i)
    restored[i].second.copy_(saved[i].second);
  for (std::size_t i = 3; i < 6; ++i) second.push(weights, {movements[i]});
  EXPECT_TRUE(weights[0].second.equal(whole.back()));
}

}  // namespace sluice::delayed_nesterov_test
