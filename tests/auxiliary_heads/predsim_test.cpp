// Labels L1, L2 and so on are those of the list of invariants of the method.
#include <cmath>
#include <vector>

#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>

#include "auxiliary_heads/similarity.h"
#include "tests/auxiliary_heads/boundary_site.h"

namespace sluice::predsim_test {

ConfigNode with_beta(double beta) {
  ConfigNode options;
  options.set("beta", ConfigNode{.value = beta});
  return options;
}

std::shared_ptr<Head> predsim(const BoundarySite& site, double beta) {
  return make_head("predsim", site, with_beta(beta));
}

using Matrix = std::vector<std::vector<double>>;

/// The published formula, number by number.
Matrix plain_similarity(const Matrix& rows) {
  Matrix directions;
  for (const std::vector<double>& row : rows) {
    double mean = 0;
    for (const double value : row) mean += value / double(row.size());
    double squares = 0;
    for (const double value : row) squares += (value - mean) * (value - mean);
    std::vector<double>& direction = directions.emplace_back();
    for (const double value : row)
      direction.push_back((value - mean) / (1e-8 + std::sqrt(squares)));
  }
  Matrix result(rows.size(), std::vector<double>(rows.size(), 0.0));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < rows.size(); ++j) {
      for (std::size_t f = 0; f < rows[i].size(); ++f)
        result[i][j] += directions[i][f] * directions[j][f];
    }
  }
  return result;
}

Matrix numbers(const at::Tensor& rows) {
  Matrix result;
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    result.emplace_back();
    for (std::int64_t j = 0; j < rows.size(1); ++j)
      result.back().push_back(rows[i][j].item<double>());
  }
  return result;
}

/// Each channel's standard deviation over its pixels, number by number.
Matrix plain_deviations(const at::Tensor& maps) {
  Matrix result;
  for (std::int64_t n = 0; n < maps.size(0); ++n) {
    result.emplace_back();
    for (const std::vector<double>& pixels : numbers(maps[n].flatten(1))) {
      const double count = double(pixels.size());
      double mean = 0;
      for (const double value : pixels) mean += value / count;
      double squares = 0;
      for (const double value : pixels)
        squares += (value - mean) * (value - mean);
      result.back().push_back(std::sqrt(squares / (count - 1)));
    }
  }
  return result;
}

/// Mean squared difference to the similarity of the labels.
double plain_mismatch(const Matrix& similarity, const at::Tensor& labels,
                      double classes) {
  double sum = 0;
  for (std::size_t i = 0; i < similarity.size(); ++i) {
    for (std::size_t j = 0; j < similarity.size(); ++j) {
      const bool same = labels[i].item<int>() == labels[j].item<int>();
      const double target = same ? 1 : -1 / (classes - 1);
      sum += std::pow(similarity[i][j] - target, 2);
    }
  }
  return sum / double(similarity.size() * similarity.size());
}

void expect_near(const at::Tensor& found, const Matrix& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t j = 0; j < expected.size(); ++j)
      EXPECT_NEAR(found[i][j].item<double>(), expected[i][j], 1e-6);
  }
}

double loss_of(Head& head, const at::Tensor& features) {
  return head.forward({features}, {.labels = six_labels()}).loss.item<double>();
}

double largest(const at::Tensor& values) {
  return values.abs().max().item<double>();
}

TEST(SimilarityMatrix, IsThePublishedFormula) {
  const at::Tensor rows = features_of({7}).detach();
  expect_near(similarity_matrix(rows), plain_similarity(numbers(rows)));
}

TEST(SimilarityMatrix, MapsCountByTheDeviationOfTheirChannels) {
  const at::Tensor maps = features_of({4, 3, 2}).detach();
  expect_near(similarity_matrix(maps),
              plain_similarity(plain_deviations(maps)));
}

TEST(SimilarityMatrix, MapsOfThreeChannelsAreFlattened) {
  const at::Tensor maps = features_of({3, 3, 2}).detach();
  expect_near(similarity_matrix(maps),
              plain_similarity(numbers(maps.flatten(1))));
}

TEST(SimilarityMatrix, MapsOfOneRowAreFlattened) {
  const at::Tensor maps = features_of({4, 1, 3}).detach();
  expect_near(similarity_matrix(maps),
              plain_similarity(numbers(maps.flatten(1))));
}

TEST(SimilarityMatrix, L1_IsSymmetricWithOnesOnTheDiagonal) {
  const at::Tensor found = similarity_matrix(features_of({7}).detach());
  EXPECT_TRUE(at::allclose(found, found.t()));
  EXPECT_TRUE(at::allclose(found.diagonal(), at::ones({6})));
}

TEST(SimilarityMatrix, L1_StaysWithinMinusOneAndOne) {
  EXPECT_LE(largest(similarity_matrix(features_of({2}).detach())), 1);
}

TEST(SimilarityMatrix, L1_OfOneHotLabelsIsItsClosedForm) {
  const at::Tensor one_hot = at::one_hot(six_labels(), 3).to(at::kFloat);
  EXPECT_TRUE(at::allclose(similarity_matrix(one_hot),
                           label_similarity(six_labels(), 3), 0, 1e-6));
}

TEST(SimilarityMatrix, L1_OfLabelsIsOneOrMinusOneOverTheOtherClasses) {
  const at::Tensor labels = at::tensor({2, 0, 2}, at::kLong);
  const at::Tensor expected =
      at::tensor({1.0, -0.25, 1.0, -0.25, 1.0, -0.25, 1.0, -0.25, 1.0})
          .reshape({3, 3});
  EXPECT_TRUE(at::equal(label_similarity(labels, 5), expected));
}

TEST(SimilarityMatrix, SimilarityMatrixOfShortFloatsIsComputedInFloat32) {
  const at::Tensor maps = features_of({4, 3, 2}).detach().to(at::kBFloat16);
  EXPECT_TRUE(at::equal(similarity_matrix(maps),
                        similarity_matrix(maps.to(at::kFloat))));
}

TEST(SimilarityMatrix, ADeadRowIsAlikeToNothing) {
  at::Tensor rows = features_of({7}).detach();
  rows[2].zero_();
  EXPECT_EQ(largest(similarity_matrix(rows)[2]), 0);
}

TEST(SimilarityMatrix, ADeadRowHasAGradientOfZero) {
  at::Tensor rows = features_of({7}).detach();
  rows[2].zero_();
  rows.requires_grad_();
  similarity_matrix(rows).square().sum().backward();
  EXPECT_EQ(largest(rows.grad()[2]), 0);
  EXPECT_TRUE(rows.grad().isfinite().all().item<bool>());
}

TEST(SimilarityMatrix, DeadMapsHaveAGradientOfZero) {
  at::Tensor maps = features_of({4, 3, 3}).detach();
  maps[2].zero_();
  maps.requires_grad_();
  similarity_matrix(maps).square().sum().backward();
  EXPECT_EQ(largest(maps.grad()[2]), 0);
  EXPECT_TRUE(maps.grad().isfinite().all().item<bool>());
}

TEST(SimilarityMatrix, L6_PermutedSamplesPermuteIt) {
  const at::Tensor rows = features_of({7}).detach();
  const at::Tensor order = at::tensor({3, 0, 5, 1, 4, 2}, at::kLong);
  const at::Tensor expected =
      similarity_matrix(rows).index_select(0, order).index_select(1, order);
  EXPECT_TRUE(
      at::allclose(similarity_matrix(rows.index_select(0, order)), expected));
}

TEST(PredSim, L6_PermutedSamplesLeaveTheLossAsItIs) {
  const auto head = predsim(site_of({7}), 0.99);
  const at::Tensor rows = features_of({7}).detach();
  const at::Tensor order = at::tensor({3, 0, 5, 1, 4, 2}, at::kLong);
  const at::Tensor permuted =
      head->forward({rows.index_select(0, order)},
                    {.labels = six_labels().index_select(0, order)})
          .loss;
  EXPECT_NEAR(permuted.item<double>(), loss_of(*head, rows), 1e-6);
}

TEST(PredSim, PredSimOfFlatFeaturesIsThePublishedFormula) {
  const BoundarySite site = site_of({7});
  const auto head = predsim(site, 0.99);
  const auto parameters = head->named_parameters();
  parameters["prediction.weight"].detach().fill_(0.1).slice(0, 1).neg_();
  const at::Tensor rows = features_of({7}).detach();
  const at::Tensor encoded = at::linear(rows, parameters["similarity.weight"]);
  const at::Tensor logits = at::linear(rows, parameters["prediction.weight"],
                                       parameters["prediction.bias"]);
  const double expected =
      0.01 * site.loss(logits, six_labels()).item<double>() +
      0.99 * plain_mismatch(plain_similarity(numbers(encoded.detach())),
                            six_labels(), 3);
  EXPECT_NEAR(loss_of(*head, rows), expected, 1e-6);
}

TEST(PredSim, SimilarityOfMapsIsBehindAPaddedConvolution) {
  const auto head = predsim(site_of({5, 4, 3}), 1);
  const at::Tensor maps = features_of({5, 4, 3}).detach();
  const at::Tensor encoded =
      at::conv2d(maps, head->named_parameters()["similarity.weight"], {},
                 /*stride=*/1, /*padding=*/1);
  const Matrix similarity = plain_similarity(plain_deviations(encoded));
  EXPECT_NEAR(loss_of(*head, maps), plain_mismatch(similarity, six_labels(), 3),
              1e-6);
}

TEST(PredSim, L2_ZeroProjectionGivesNoGradientToTheEncoder) {
  const auto head = predsim(site_of({7}), 0);
  const at::Tensor features = features_of({7});
  head->forward({features}, {.labels = six_labels()}).loss.backward();
  EXPECT_EQ(largest(features.grad()), 0);
}

TEST(PredSim, L2_ZeroProjectionGetsAGradientItself) {
  const auto head = predsim(site_of({7}), 0);
  head->forward({features_of({7})}, {.labels = six_labels()}).loss.backward();
  const auto weight = head->named_parameters()["prediction.weight"];
  EXPECT_EQ(largest(weight), 0);
  EXPECT_GT(largest(weight.grad()), 0);
}

at::Tensor gradient_at_features(double beta) {
  const auto head = predsim(site_of({7}), beta);
  if (const at::Tensor* weight =
          head->named_parameters().find("prediction.weight"))
    weight->detach().fill_(0.1).slice(0, 1).neg_();
  const at::Tensor features = features_of({7});
  head->forward({features}, {.labels = six_labels()}).loss.backward();
  return features.grad();
}

TEST(PredSim, L5_AtBetaZeroTheGradientIsThatOfPred) {
  const at::Tensor features = features_of({7});
  const BoundarySite site = site_of({7});
  const auto parameters = predsim(site, 0)->named_parameters();
  at::Tensor weight = at::full({3, 7}, 0.1);
  weight.slice(0, 1).neg_();
  const at::Tensor logits =
      at::linear(features, weight, parameters["prediction.bias"]);
  site.loss(logits, six_labels()).backward();
  EXPECT_TRUE(at::allclose(gradient_at_features(0), features.grad()));
}

TEST(PredSim, L5_AtBetaOneTheGradientIsThatOfSim) {
  const at::Tensor features = features_of({7});
  const auto parameters = predsim(site_of({7}), 1)->named_parameters();
  const at::Tensor encoded =
      at::linear(features, parameters["similarity.weight"]);
  const at::Tensor target = label_similarity(six_labels(), 3);
  (similarity_matrix(encoded) - target).square().mean().backward();
  EXPECT_TRUE(at::allclose(gradient_at_features(1), features.grad()));
}

TEST(PredSim, L5_InBetweenTheTwoGradientsAreBlended) {
  EXPECT_TRUE(at::allclose(
      gradient_at_features(0.25),
      0.75 * gradient_at_features(0) + 0.25 * gradient_at_features(1)));
}

TEST(PredSim, PredHasOnlyAClassifier) {
  const std::vector<std::string> expected = {"prediction.weight",
                                             "prediction.bias"};
  EXPECT_EQ(predsim(site_of({7}), 0)->named_parameters().keys(), expected);
}

TEST(PredSim, SimHasNoClassifier) {
  const auto head = predsim(site_of({7}), 1);
  const std::vector<std::string> expected = {"similarity.weight"};
  EXPECT_EQ(head->named_parameters().keys(), expected);
  EXPECT_FALSE(head->forward({features_of({7})}, {.labels = six_labels()})
                   .logits.defined());
}

// What the pool of the classifier does to each map that a network has before
// its own pools, worked out by hand: channels and size, then kernel, padding
// and output as height x width.
struct Row {
  std::int64_t channels;
  std::int64_t size;
  PoolPlan plan;
};

void expect_plans(const std::vector<Row>& rows, std::int64_t limit) {
  for (const Row& row : rows) {
    const std::string name =
        std::to_string(row.channels) + " x " + std::to_string(row.size);
    const PoolPlan found = plan_pool(row.channels, row.size, row.size, limit);
    EXPECT_EQ(found, row.plan) << name;
    EXPECT_LE(row.channels * found.height * found.width, limit) << name;
  }
}

TEST(PredSim, L7_PoolsOfVgg8bOnCifarAt2048) {
  expect_plans({{128, 32, {8, 8, 0, 0, 4, 4}},
                {256, 32, {16, 8, 0, 0, 2, 4}},
                {256, 16, {8, 4, 0, 0, 2, 4}},
                {512, 16, {8, 8, 0, 0, 2, 2}},
                {512, 8, {4, 4, 0, 0, 2, 2}},
                {512, 4, {2, 2, 0, 0, 2, 2}}},
               2048);
}

TEST(PredSim, L7_PoolsOfVgg11bOnCifarAt4096) {
  expect_plans({{128, 32, {8, 4, 0, 0, 4, 8}},
                {256, 32, {8, 8, 0, 0, 4, 4}},
                {256, 16, {4, 4, 0, 0, 4, 4}},
                {512, 16, {8, 4, 0, 0, 2, 4}},
                {512, 8, {4, 2, 0, 0, 2, 4}},
                {512, 4, {2, 1, 0, 0, 2, 4}}},
               4096);
}

TEST(PredSim, L7_PoolsOfVgg8bOnMnistAt1024) {
  expect_plans({{128, 28, {16, 8, 8, 4, 2, 4}},
                {256, 28, {16, 16, 8, 8, 2, 2}},
                {256, 14, {8, 8, 4, 4, 2, 2}},
                {512, 14, {16, 8, 8, 4, 1, 2}},
                {512, 7, {8, 4, 4, 2, 1, 2}},
                {512, 3, {4, 2, 2, 1, 1, 2}}},
               1024);
}

TEST(PredSim, L7_APixelIsLeftWhereTheLimitIsBelowTheChannels) {
  EXPECT_EQ(plan_pool(64, 6, 6, 10), (PoolPlan{8, 8, 4, 4, 1, 1}));
}

TEST(PredSim, L7_SmallMapsAreNotPooled) {
  EXPECT_EQ(plan_pool(8, 5, 4, 4096), (PoolPlan{1, 1, 0, 0, 5, 4}));
}

TEST(PredSim, L7_WideMapsArePooledInBothDirections) {
  EXPECT_EQ(plan_pool(1, 2, 16, 4), (PoolPlan{2, 4, 0, 0, 1, 4}));
}

TEST(PredSim, L7_PoolingGivesThePlannedSize) {
  const at::Tensor maps = features_of({4, 7, 7}).detach();
  const PoolPlan plan = plan_pool(4, 7, 7, 8);
  EXPECT_EQ(pooled(maps, plan).sizes().vec(),
            (std::vector<std::int64_t>{6, 4, plan.height, plan.width}));
}

TEST(PredSim, L7_PaddingCountsAsZeros) {
  // 3 x 3 ones, kernel 2, one zero around: a corner sees one of four.
  const at::Tensor found =
      pooled(at::ones({1, 1, 3, 3}), plan_pool(1, 3, 3, 4));
  EXPECT_EQ(found[0][0][0][0].item<float>(), 0.25F);
  EXPECT_EQ(found[0][0][1][1].item<float>(), 1.0F);
}

}  // namespace sluice::predsim_test
