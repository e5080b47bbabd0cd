#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/lib/updates/rules.h"

namespace sluice::lion_test {

double sign(double x) {
  return static_cast<double>(x > 0) - static_cast<double>(x < 0);
}

TEST(Lion, IsItsAlgorithmWrittenOut) {
  const PlainRule plain = [momentum = 0.0](double w, double g,
                                           int /*t*/) mutable {
    const double along = sign(0.9 * momentum + (1 - 0.9) * g);
    momentum = 0.99 * momentum + (1 - 0.99) * g;
    return w - 0.01 * (along + 0.1 * w);
  };
  EXPECT_LT(largest_difference(
                after(50, {{"name", "lion"}, {"weight_decay", 0.1}}, 0.01),
                plainly_after(50, plain)),
            1e-12);
}

TEST(Lion, MovesEveryWeightByTheRateWhateverTheGradient) {
  const NamedTensors weights = {{"w", at::zeros({2}, at::kDouble)}};
  const auto rule = make_optimizer({.name = "lion"}, weights);
  rule->step({at::tensor({1e-6, -1e6}, at::kDouble)}, 0.01);
  EXPECT_DOUBLE_EQ(weights[0].second[0].item<double>(), -0.01);
  EXPECT_DOUBLE_EQ(weights[0].second[1].item<double>(), 0.01);
}

TEST(Lion, ItsBetasAreItsOwn) {
  EXPECT_GT(
      largest_difference(
          after(30, {{"name", "lion"}}, 0.01),
          after(30, {{"name", "lion"}, {"beta1", 0.5}, {"beta2", 0.9}}, 0.01)),
      0.005);
}

}  // namespace sluice::lion_test
