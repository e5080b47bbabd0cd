#include "lib/blocks/evaluation.h"

#include <cmath>

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

TEST(Evaluation, OfTextsCountsEveryPlace) {
  const at::Tensor logits = at::zeros({2, 3, 5});
  logits.select(2, 4).fill_(1);  // always says token 4
  Evaluation evaluation;
  evaluation.add(cross_entropy(), logits,
                 at::tensor({4, 0, 4, 1, 2, 3}, at::kLong).view({2, 3}));
  EXPECT_EQ(evaluation.labels(), 6);
  EXPECT_NEAR(evaluation.accuracy(), 2.0 / 6, 1e-12);
}

TEST(Evaluation, OfNumbersCountsRowsAndHasNoAccuracy) {
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
