#include "lib/blocks/evaluation.h"

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/metrics/early_stop.h"

namespace sluice::evaluation_test {

Loss cross_entropy() {
  Fields none(nullptr, "loss");
  return find_row(losses(), "cross_entropy", "loss").make(none).training;
}

TEST(Evaluation, CountsEverySampleOnceWhateverTheBatches) {
  // Two classes; the first logit is 0, so the loss is log(1 + exp(z)) for
  // label 0 and log(1 + exp(-z)) for label 1.
  const auto logits = [](double z) {
    return at::tensor({0.0, z}).view({1, 2});
  };
  const at::Tensor first = at::cat({logits(2), logits(-1), logits(3)});
  const at::Tensor second = logits(1);
  Evaluation evaluation;
  evaluation.add(cross_entropy(), first, at::tensor({1, 1, 0}, at::kLong));
  evaluation.add(cross_entropy(), second, at::tensor({1}, at::kLong));
  const double expected = (std::log1p(std::exp(-2)) + std::log1p(std::exp(1)) +
                           std::log1p(std::exp(3)) + std::log1p(std::exp(-1))) /
                          4;
  EXPECT_NEAR(evaluation.loss(), expected, 1e-6);
  EXPECT_EQ(evaluation.accuracy(), 0.5);  // the first and the last
  EXPECT_EQ(evaluation.labels(), 4);
}

TEST(Evaluation, EvaluationOfTextsCountsEveryPlace) {
  const at::Tensor logits = at::zeros({2, 3, 5});
  logits.select(2, 4).fill_(1);  // always says token 4
  Evaluation evaluation;
  evaluation.add(cross_entropy(), logits,
                 at::tensor({4, 0, 4, 1, 2, 3}, at::kLong).view({2, 3}));
  EXPECT_EQ(evaluation.labels(), 6);
  EXPECT_NEAR(evaluation.accuracy(), 2.0 / 6, 1e-12);
}

TEST(Evaluation, EvaluationOfNumbersCountsRowsAndHasNoAccuracy) {
  Fields none(nullptr, "loss");
  const Loss squared =
      find_row(losses(), "mean_squared_error", "loss").make(none).training;
  Evaluation evaluation;
  // Squares of 1, 3; then 2, 2 and 0, 0.
  evaluation.add(squared, at::tensor({1.0F, 3.0F}).view({1, 2}),
                 at::zeros({1, 2}));
  evaluation.add(squared, at::tensor({2.0F, 2.0F, 5.0F, 5.0F}).view({2, 2}),
                 at::tensor({0.0F, 0.0F, 5.0F, 5.0F}).view({2, 2}));
  EXPECT_EQ(evaluation.labels(), 3);
  EXPECT_NEAR(evaluation.loss(), (10 + 8 + 0) / 6.0, 1e-6);
  EXPECT_FALSE(evaluation.has_accuracy());
  EXPECT_TRUE(std::isnan(evaluation.accuracy()));
}

Loss mean_squared_error() {
  Fields none(nullptr, "loss");
  return find_row(losses(), "mean_squared_error", "loss").make(none).evaluation;
}

TEST(CoefficientOfDetermination, IsOneMinusTheUnexplainedShareOfEachNumber) {
  // Two numbers a sample, the first far from 0: sums of its squares would lose
  // what they differ by.
  const std::vector<std::vector<double>> y = {
      {1e6, -1}, {1e6 + 1, 2}, {1e6 + 3, 0}, {1e6 + 4, 5}, {1e6 + 2, 1}};
  const std::vector<std::vector<double>> outputs = {
      {1e6, 0}, {1e6 + 1.5, 2}, {1e6 + 2, -1}, {1e6 + 4, 3}, {1e6 + 2, 1}};
  double expected = 0;
  for (std::size_t c = 0; c < 2; ++c) {
    double mean = 0;
    for (const auto& sample : y) mean += sample[c] / 5;
    double missed = 0;
    double spread = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      missed += std::pow(y[i][c] - outputs[i][c], 2);
      spread += std::pow(y[i][c] - mean, 2);
    }
    expected += (1 - missed / spread) / 2;
  }
  const auto rows = [](const std::vector<std::vector<double>>& all,
                       std::size_t begin, std::size_t end) {
    std::vector<double> flat;
    for (std::size_t i = begin; i < end; ++i)
      flat.insert(flat.end(), all[i].begin(), all[i].end());
    return at::tensor(flat, at::kDouble).view({-1, 2}).to(at::kFloat);
  };
  Evaluation evaluation;  // in batches of 3, 1 and 1
  for (const auto& [begin, end] :
       {std::pair{0, 3}, std::pair{3, 4}, std::pair{4, 5}})
    evaluation.add(mean_squared_error(),
                   rows(outputs, static_cast<std::size_t>(begin),
                        static_cast<std::size_t>(end)),
                   rows(y, static_cast<std::size_t>(begin),
                        static_cast<std::size_t>(end)));
  EXPECT_TRUE(evaluation.has_r2());
  EXPECT_NEAR(evaluation.r2(), expected, 1e-9);
  EXPECT_LT(evaluation.r2(), 0.99);
}

TEST(CoefficientOfDetermination, IsZeroForTheMeanAndOneForTheTargets) {
  const at::Tensor y = at::tensor({1.0F, 2.0F, 6.0F}).view({3, 1});
  Evaluation of_mean;
  of_mean.add(mean_squared_error(), at::full({3, 1}, 3.0), y);
  EXPECT_NEAR(of_mean.r2(), 0, 1e-12);
  Evaluation of_targets;
  of_targets.add(mean_squared_error(), y, y);
  EXPECT_EQ(of_targets.r2(), 1);
}

TEST(CoefficientOfDetermination,
     CoefficientOfDeterminationOfANumberThatNeverVariesIsOneIfItIsMet) {
  const at::Tensor y = at::full({4, 1}, 2.0);
  Evaluation met;
  met.add(mean_squared_error(), y, y);
  EXPECT_EQ(met.r2(), 1);
  Evaluation missed;
  missed.add(mean_squared_error(), y + 1, y);
  EXPECT_EQ(missed.r2(), 0);
}

TEST(CoefficientOfDetermination, IsNoneOfClasses) {
  Evaluation evaluation;
  evaluation.add(cross_entropy(), at::zeros({2, 3}),
                 at::tensor({1, 2}, at::kLong));
  EXPECT_FALSE(evaluation.has_r2());
  EXPECT_TRUE(std::isnan(evaluation.r2()));
}

TEST(EarlyStop, CountsEvaluationsSinceTheBest) {
  EarlyStop stop({.measure = {"loss"}, .patience = 2, .min_delta = 0.1});
  for (const double loss : {1.0, 0.95, 0.8, 0.75})
    stop.evaluated({.loss = loss});
  EXPECT_FALSE(stop.is_due());  // 0.8 was progress, 0.75 was not enough
  stop.evaluated({.loss = 0.9});
  EXPECT_TRUE(stop.is_due());
}

TEST(EarlyStop, WithoutPatienceNeverStops) {
  EarlyStop stop({});
  for (int i = 0; i < 10; ++i) stop.evaluated({.accuracy = 0.5});
  EXPECT_FALSE(stop.is_due());
}

TEST(EarlyStop, ALossThatIsNoNumberIsNoProgress) {
  EarlyStop stop({.measure = {"loss"}, .patience = 2});
  stop.evaluated({.loss = 1});
  stop.evaluated({.loss = std::nan("")});
  stop.evaluated({.loss = std::nan("")});
  EXPECT_TRUE(stop.is_due());
}

}  // namespace sluice::evaluation_test
