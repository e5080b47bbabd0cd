// The heads of decoupled greedy learning: mlp_sr, conv, full_conv; and that of
// texts.
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::stacked_heads_test {

using at::Tensor;

ConfigNode integers(
    const std::vector<std::pair<std::string, std::int64_t>>& entries) {
  ConfigNode options;
  for (const auto& [key, value] : entries)
    options.set(key, ConfigNode{.value = value});
  return options;
}

std::int64_t parameter_count(const Head& head) {
  std::int64_t count = 0;
  for (const Tensor& parameter : head.parameters()) count += parameter.numel();
  return count;
}

HeadResult run(Head& head, const Tensor& features) {
  return head.forward({features}, {.labels = labels_for(features)});
}

/// Batch norm by the statistics of this batch, with weight 1 and bias 0.
Tensor normalised(const Tensor& x) {
  return at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false);
}

Tensor parameter(const Head& head, const std::string& name) {
  return head.named_parameters()[name];
}

// The head written out, with the map averaged to height x width first.
Tensor plain_mlp_sr(const Head& head, Tensor x, std::int64_t height,
                    std::int64_t width) {
  x = at::adaptive_avg_pool2d(x, {height, width});
  for (const char* i : {"1", "2", "3"}) {
    const std::string name = std::string("convolutions.conv") + i + ".weight";
    x = at::relu(normalised(at::conv2d(x, parameter(head, name))));
  }
  x = at::adaptive_avg_pool2d(x, {2, 2}).flatten(1);
  for (const char* i : {"1", "2", "3"}) {
    const std::string name = std::string("mlp.linear") + i;
    x = at::relu(normalised(at::linear(x, parameter(head, name + ".weight"),
                                       parameter(head, name + ".bias"))));
  }
  return at::linear(x, parameter(head, "classifier.weight"),
                    parameter(head, "classifier.bias"));
}

TEST(MlpSr, AveragesMapsToAFourthOfTheirSizeRoundedUp) {
  // height, width -> height, width of the map that is convolved
  const std::vector<std::vector<std::int64_t>> rows = {
      {32, 32, 8, 8}, {28, 28, 7, 7}, {16, 16, 4, 4}, {10, 10, 3, 3},
      {9, 6, 3, 2},   {8, 8, 2, 2},   {5, 5, 2, 2},   {4, 4, 1, 1},
      {3, 3, 1, 1},   {1, 1, 1, 1}};
  for (const auto& row : rows) {
    const auto head = make_head("mlp_sr", site_of({4, row[0], row[1]}));
    const Tensor x = features_of({4, row[0], row[1]}).detach();
    const Tensor found = run(*head, x).logits;
    EXPECT_TRUE(at::equal(found, plain_mlp_sr(*head, x, row[2], row[3])))
        << row[0] << " x " << row[1];
    if (row[0] > 1) {
      EXPECT_FALSE(
          at::allclose(found, plain_mlp_sr(*head, x, row[2] + 1, row[3])))
          << row[0] << " x " << row[1];
    }
  }
}

TEST(MlpSr, HasTheParametersOfItsLayers) {
  const std::int64_t conv = 128 * 128 + 2 * 128;
  const std::int64_t linear = 512 * 512 + 512 + 2 * 512;
  const BoundarySite site = site_of({128, 32, 32}, 10);
  EXPECT_EQ(parameter_count(*make_head("mlp_sr", site)),
            3 * conv + 3 * linear + (512 * 10 + 10));
  EXPECT_EQ(
      parameter_count(*make_head(
          "mlp_sr", site, integers({{"conv_layers", 0}, {"mlp_layers", 1}}))),
      linear + (512 * 10 + 10));
}

TEST(MlpSr, OnFlatFeaturesHasNoConvolutionsAndKeepsTheWidth) {
  const auto head = make_head("mlp_sr", site_of({20}, 10));
  EXPECT_EQ(parameter_count(*head),
            3 * (20 * 20 + 20 + 2 * 20) + (20 * 10 + 10));
  EXPECT_EQ(head->named_parameters().find("convolutions.conv1.weight"),
            nullptr);
}

TEST(MlpSr, WithoutLayersIsALinearClassifierOfTheFourQuarters) {
  const auto head =
      make_head("mlp_sr", site_of({4, 8, 8}),
                integers({{"conv_layers", 0}, {"mlp_layers", 0}}));
  const Tensor x = features_of({4, 8, 8}).detach();
  const Tensor pooled = at::adaptive_avg_pool2d(x, {2, 2}).flatten(1);
  const Tensor expected =
      at::linear(pooled, parameter(*head, "classifier.weight"),
                 parameter(*head, "classifier.bias"));
  EXPECT_TRUE(at::allclose(run(*head, x).logits, expected, 1e-5, 1e-6));
}

void expect_batch_of_one(bool allowed, std::string_view name,
                         const SampleShape& features,
                         const ConfigNode& options = {}) {
  const auto head = make_head(name, site_of(features), options);
  const Tensor one = features_of(features).detach().slice(0, 0, 1);
  const auto forward = [&] {
    head->forward({one}, {.labels = six_labels()[0].view(1)});
  };
  if (allowed) {
    EXPECT_NO_THROW(forward()) << name;
  } else {
    EXPECT_THROW(forward(), UserError) << name;
  }
}

TEST(StackedHeads, ABatchOfOneIsRefusedWhereANormWouldSeeOneValue) {
  expect_batch_of_one(false, "mlp_sr", {8});
  expect_batch_of_one(false, "mlp_sr", {8, 9, 9});
  expect_batch_of_one(false, "mlp_sr", {8, 4, 4},
                      integers({{"mlp_layers", 0}}));
  expect_batch_of_one(false, "conv", {8, 1, 1});
  expect_batch_of_one(false, "full_conv", {8, 1, 1});
}

TEST(StackedHeads, ABatchOfOneIsTakenElsewhere) {
  expect_batch_of_one(true, "mlp_sr", {8, 5, 5}, integers({{"mlp_layers", 0}}));
  expect_batch_of_one(true, "mlp_sr", {8}, integers({{"mlp_layers", 0}}));
  expect_batch_of_one(true, "conv", {8, 1, 2});
  expect_batch_of_one(true, "conv", {8, 1, 1}, integers({{"layers", 0}}));
  expect_batch_of_one(true, "full_conv", {8, 1, 2});
}

TEST(ConvHead, IsConvolutionsPoolNormAndClassifier) {
  const auto head = make_head("conv", site_of({4, 7, 6}));
  Tensor x = features_of({4, 7, 6}).detach();
  const Tensor found = run(*head, x).logits;
  for (const char* name :
       {"convolutions.conv1.weight", "convolutions.conv2.weight"})
    x = at::relu(
        normalised(at::conv2d(x, parameter(*head, name), {}, /*stride=*/1,
                              /*padding=*/1)));
  x = normalised(at::adaptive_avg_pool2d(x, {2, 2})).flatten(1);
  EXPECT_TRUE(
      at::equal(found, at::linear(x, parameter(*head, "classifier.weight"),
                                  parameter(*head, "classifier.bias"))));
}

TEST(ConvHead, LayersSetsTheNumberOfConvolutions) {
  const BoundarySite site = site_of({16, 8, 8}, 10);
  const std::int64_t conv = 9 * 16 * 16 + 2 * 16;
  const std::int64_t rest = 2 * 16 + (16 * 4 * 10 + 10);
  EXPECT_EQ(parameter_count(*make_head("conv", site)), 2 * conv + rest);
  EXPECT_EQ(
      parameter_count(*make_head("conv", site, integers({{"layers", 5}}))),
      5 * conv + rest);
}

TEST(FullConv, TwoOnTheNetOfThePapersHave2Point46MillionParameters) {
  const std::int64_t one =
      3 * (25 * 128 * 128 + 128) + 2 * (2 * 128) + (128 * 10 + 10);
  EXPECT_EQ(2 * one, 2'461'972);
  EXPECT_EQ(
      parameter_count(*make_head("full_conv", site_of({128, 10, 10}, 10))),
      one);
}

double largest(const Tensor& tensor) {
  return tensor.abs().max().item<double>();
}

TEST(FullConv, FirstStepGivesTheFeaturesNoGradientTheSecondDoes) {
  const auto head = make_head("full_conv", site_of({4, 5, 5}));
  const Tensor x = features_of({4, 5, 5});
  run(*head, x).loss.backward();
  EXPECT_EQ(largest(x.grad()), 0);
  const Tensor last = parameter(*head, "last.weight");
  EXPECT_GT(largest(last.grad()), 0);
  last.detach().sub_(0.1 * last.grad());
  run(*head, x).loss.backward();
  EXPECT_GT(largest(x.grad()), 0);
}

TEST(Vocabulary, IsTheMeanLossOverAllPlaces) {
  const auto head = make_head("vocabulary", site_of({7, 8}, 3));
  const Tensor x = features_of({7, 8}).detach();
  const HeadResult result = run(*head, x);
  const Tensor rows = at::linear(at::layer_norm(x.view({42, 8}), {8}),
                                 parameter(*head, "vocabulary.weight"));
  const Tensor expected =
      -rows.log_softmax(-1).gather(1, labels_for(x).view({42, 1})).mean();
  EXPECT_TRUE(at::allclose(result.loss, expected, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(result.logits.view({42, 3}), rows, 1e-5, 1e-6));
}

TEST(Vocabulary, HasANormAndAMatrix) {
  EXPECT_EQ(parameter_count(*make_head("vocabulary", site_of({7, 8}, 65))),
            2 * 8 + 8 * 65);
}

}  // namespace sluice::stacked_heads_test
