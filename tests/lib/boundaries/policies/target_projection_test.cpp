// DRTP: a gradient that is a fixed random projection of the label.
#include <cmath>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"

namespace sluice::target_projection_test {

constexpr const char* kNet =
    "blocks = ['0', '1', '2-']\nmodel = {hidden = [48, 40]}\n"
    "boundary = {policy = 'target_projection'}\n";

/// The gradient at these features of block 1.
at::Tensor gradient_at(const at::Tensor& features, const at::Tensor& labels,
                       const std::string& lines = "") {
  const Experiment experiment = small_experiment(kNet + lines);
  const auto policy =
      experiment.phases[0][0].make.lower(site_of(experiment, 1));
  return policy
      ->signal({.turn = 0,
                .batch = 0,
                .features = {features},
                .labels = labels,
                .from_above = {}})
      .gradients.at(0);
}

const at::Tensor kLabels = at::tensor({3, 7, 3}, at::kLong);

TEST(TargetProjection, GivesEqualLabelsEqualGradients) {
  const at::Tensor gradient = gradient_at(at::randn({3, 48}), kLabels);
  EXPECT_TRUE(gradient[0].equal(gradient[2]));
  EXPECT_FALSE(gradient[0].equal(gradient[1]));
}

TEST(TargetProjection, LooksAtNoFeatures) {
  EXPECT_TRUE(gradient_at(at::randn({3, 48}), kLabels)
                  .equal(gradient_at(at::zeros({3, 48}), kLabels)));
}

TEST(TargetProjection, IsTheMeanOfABoundedMatrix) {
  const at::Tensor gradient =
      gradient_at(at::zeros({10, 48}), at::arange(10)) * 10;
  const double bound = std::sqrt(6.0 / 48);
  EXPECT_LE(gradient.abs().max().item<double>(), bound * (1 + 1e-6));
  EXPECT_GT(gradient.abs().max().item<double>(), 0.9 * bound);
  EXPECT_NEAR(gradient.mean().item<double>(), 0, 0.1 * bound);
}

TEST(TargetProjection, FollowsFromTheSeed) {
  const at::Tensor features = at::zeros({3, 48});
  EXPECT_TRUE(gradient_at(features, kLabels, "seed = 5\n")
                  .equal(gradient_at(features, kLabels, "seed = 5\n")));
  EXPECT_FALSE(gradient_at(features, kLabels, "seed = 5\n")
                   .equal(gradient_at(features, kLabels, "seed = 6\n")));
}

TEST(TargetProjection, ProjectsEachTokensLabel) {
  const at::Tensor labels = at::tensor({3, 7, 7, 3}, at::kLong).view({2, 2});
  const at::Tensor gradient = gradient_at(at::zeros({2, 2, 48}), labels);
  EXPECT_TRUE(gradient[0][0].equal(gradient[1][1]));
  EXPECT_TRUE(gradient[0][1].equal(gradient[1][0]));
}

/// Loss of the network, when the blocks below the last learn from projections
/// of that scale.
double loss_with(const std::string& scale) {
  struct Losses final : Sink {
    void write(const Record& record) override {
      if (record.text("kind") == "evaluation") last = record.number("loss", -1);
    }
    double last = -1;
  };
  const auto losses = std::make_shared<Losses>();
  Training training(
      small_experiment("blocks = ['0', '1', '2-']\nturns = 60\n"
                       "model = {hidden = [48, 40], activation = 'tanh'}\n"
                       "optimizer = {name = 'sgd', lr = 0.1}\n"
                       "boundary = {policy = 'target_projection', scale = " +
                       scale + "}\n"),
      losses);
  training.train();
  return losses->last;
}

TEST(TargetProjection, HelpsTheBlocksBelowTheLast) {
  EXPECT_LT(loss_with("1"), 0.9 * loss_with("0"));
}

}  // namespace sluice::target_projection_test
