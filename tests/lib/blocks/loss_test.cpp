#include "lib/blocks/loss.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include "lib/base/error.h"
#include "lib/blocks/layer.h"

namespace sluice::loss_test {

RunLoss make_run_loss(std::string_view name, const ConfigNode& options = {}) {
  Fields fields(&options, "loss");
  RunLoss loss = find_row(losses(), name, "loss").make(fields);
  fields.finish();
  return loss;
}

Loss make_loss(std::string_view name, const ConfigNode& options = {}) {
  return make_run_loss(name, options).training;
}

ConfigNode smoothing(double value) {
  ConfigNode options;
  options.set("label_smoothing", ConfigNode{.value = value});
  return options;
}

// Odds of 3 : 1 for class 0, so that -log p is log(4/3) or log(4).
at::Tensor two_outputs() {
  return at::tensor({std::log(3.0), 0.0, std::log(3.0), 0.0}).reshape({2, 2});
}

at::Tensor two_labels() {
  return at::tensor({0, 1}, at::kLong);
}

TEST(CrossEntropy, IsTheMeanOfMinusLogProbability) {
  const double expected = (std::log(4.0 / 3) + std::log(4.0)) / 2;
  EXPECT_NEAR(
      make_loss("cross_entropy")(two_outputs(), two_labels()).item<double>(),
      expected, 1e-6);
}

TEST(CrossEntropy, SmoothingSpreadsItsShareOverAllClasses) {
  const at::Tensor outputs = two_outputs().slice(0, 0, 1);
  const at::Tensor labels = two_labels().slice(0, 0, 1);
  const double expected = 0.9 * std::log(4.0 / 3) + 0.1 * std::log(4.0);
  const Loss loss = make_loss("cross_entropy", smoothing(0.2));
  EXPECT_NEAR(loss(outputs, labels).item<double>(), expected, 1e-6);
}

TEST(CrossEntropy, SmoothedIsThatOfLibTorchBitForBit) {
  const at::Tensor outputs = at::randn({6, 5}, Pass{}.generator("outputs"));
  const at::Tensor labels = at::tensor({0, 4, 2, 2, 1, 3}, at::kLong);
  const at::Tensor expected = torch::nn::functional::cross_entropy(
      outputs, labels,
      torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(0.1));
  EXPECT_TRUE(at::equal(
      make_loss("cross_entropy", smoothing(0.1))(outputs, labels), expected));
}

TEST(CrossEntropy, EvaluationsReportItWithoutSmoothing) {
  const RunLoss smoothed = make_run_loss("cross_entropy", smoothing(0.2));
  const at::Tensor plain =
      make_loss("cross_entropy")(two_outputs(), two_labels());
  EXPECT_TRUE(
      at::equal(smoothed.evaluation(two_outputs(), two_labels()), plain));
  // One label is the likelier one, and one isn't: of the two the loss would be
  // the same.
  const at::Tensor likely = two_labels().slice(0, 0, 1);
  const at::Tensor outputs = two_outputs().slice(0, 0, 1);
  EXPECT_FALSE(at::equal(smoothed.training(outputs, likely),
                         smoothed.evaluation(outputs, likely)));
}

TEST(MeanSquaredError, IsTheMeanOverSamplesAndClasses) {
  const at::Tensor outputs =
      at::tensor({1.0, 2.0, 0.0, 0.0}).reshape({2, 2}).to(at::kFloat);
  // Targets (1, 0) and (0, 1): squares 0, 4, 0, 1.
  EXPECT_EQ(
      make_loss("mean_squared_error")(outputs, two_labels()).item<float>(),
      1.25F);
}

TEST(MeanSquaredError, GradientPullsTowardsTheOneHotLabel) {
  const at::Tensor outputs = at::zeros({1, 2}).requires_grad_();
  const at::Tensor labels = at::tensor({1}, at::kLong);
  make_loss("mean_squared_error")(outputs, labels).backward();
  EXPECT_TRUE(
      at::equal(outputs.grad(), at::tensor({0.0F, -1.0F}).reshape({1, 2})));
}

TEST(Losses, AnUnknownNameIsAnErrorThatListsAll) {
  try {
    make_loss("cross_entrpy");
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("mean_squared_error"),
              std::string::npos);
  }
}

ConfigNode threshold(double value) {
  ConfigNode options;
  options.set("threshold", ConfigNode{.value = value});
  return options;
}

TEST(Goodness, LacksOfTheRightVariantAndTooMuchOfTheOthersAdd) {
  const at::Tensor outputs =
      at::tensor({5.0, 1.0, 2.0, 3.0, 4.0, 0.5}).view({2, 3});
  const at::Tensor labels = at::tensor({0, 2}, at::kLong);
  const auto cost = [](double excess) { return std::log1p(std::exp(excess)); };
  const double first = cost(2 - 5.0) + (cost(1.0 - 2) + cost(2.0 - 2)) / 2;
  const double second = cost(2 - 0.5) + (cost(3.0 - 2) + cost(4.0 - 2)) / 2;
  const Loss loss = make_loss("goodness", threshold(2));
  EXPECT_NEAR(loss(outputs, labels).item<double>(), (first + second) / 2,
              1e-12);
}

TEST(Goodness, TakesTokensOfTextsAsItTakesSamples) {
  const at::Tensor outputs = at::randn({3, 4, 5}, Pass{}.generator("outputs"));
  const at::Tensor labels = at::arange(12).remainder(5).view({3, 4});
  const Loss loss = make_loss("goodness", threshold(2));
  EXPECT_TRUE(at::equal(loss(outputs, labels),
                        loss(outputs.view({12, 5}), labels.view({12}))));
}

TEST(Goodness, GoodnessOfAPairIsTheLossOfForwardForward) {
  const at::Tensor outputs = at::tensor({5.0, 1.0}).view({1, 2});
  const Loss loss = make_loss("goodness", threshold(2));
  EXPECT_NEAR(
      loss(outputs, at::zeros({1}, at::kLong)).item<double>(),
      std::log(1 + std::exp(-(5.0 - 2))) + std::log(1 + std::exp(1.0 - 2)),
      1e-12);
}

}  // namespace sluice::loss_test
