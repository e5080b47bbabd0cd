#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/lib/updates/rules.h"

namespace sluice::nadam_test {

const OptimizerKeys kOther = {{"name", "nadam"},     {"beta1", 0.95},
                              {"beta2", 0.99},       {"epsilon", 1e-6},
                              {"weight_decay", 0.1}, {"momentum_decay", 0.5}};

TEST(Nadam, HasPyTorchsWeightsAfter50Steps) {
  // Figures of torch.optim.NAdam in float64, lr = 0.02, else its defaults.
  EXPECT_LT(largest_difference(after(50, {{"name", "nadam"}}, 0.02),
                               {0.354188374516, -0.489780041874, 0.888796081986,
                                1.81527793056}),
            1e-10);
}

TEST(Nadam, HasPyTorchsWeightsWithOtherKeys) {
  EXPECT_LT(largest_difference(after(50, kOther, 0.02),
                               {0.331464779109, -0.444771301599, 0.803814716103,
                                1.65733432184}),
            1e-10);
}

TEST(Nadamw, HasPyTorchsWeightsWithDecoupledDecay) {
  EXPECT_LT(
      largest_difference(
          after(50, {{"name", "nadamw"}, {"weight_decay", 0.1}}, 0.02),
          {0.317374874832, -0.444076433985, 0.804376949179, 1.6429874814}),
      1e-10);
}

TEST(Nadam, IsItsEquationWrittenOut) {
  const PlainRule plain = [mean = 0.0, square = 0.0, product = 1.0](
                              double w, double g, int t) mutable {
    const auto momentum = [](int step) {
      return 0.95 * (1 - 0.5 * std::pow(0.96, 0.5 * step));
    };
    const double change = g + 0.1 * w;
    product *= momentum(t);
    mean = 0.95 * mean + 0.05 * change;
    square = 0.99 * square + 0.01 * change * change;
    const double ahead = momentum(t + 1);
    const double along = (1 - momentum(t)) * change / (1 - product) +
                         ahead * mean / (1 - product * ahead);
    return w -
           0.02 * along / (std::sqrt(square / (1 - std::pow(0.99, t))) + 1e-6);
  };
  EXPECT_LT(
      largest_difference(after(50, kOther, 0.02), plainly_after(50, plain)),
      1e-12);
}

TEST(Nadam, WithoutMomentumIsRmspropWithItsBiasCorrected) {
  const PlainRule plain = [square = 0.0](double w, double g, int t) mutable {
    square = 0.999 * square + 0.001 * g * g;
    return w - 0.02 * g / (std::sqrt(square / (1 - std::pow(0.999, t))) + 1e-8);
  };
  EXPECT_LT(
      largest_difference(after(50, {{"name", "nadam"}, {"beta1", 0.0}}, 0.02),
                         plainly_after(50, plain)),
      1e-12);
}

TEST(Nadam, StepsTendToTheRateUnderAConstantGradient) {
  const NamedTensors weights = {{"w", at::zeros({1}, at::kDouble)}};
  const auto rule = make_optimizer({.name = "nadam"}, weights);
  double before = 0;
  for (int step = 0; step < 500; ++step) {
    before = weights[0].second.item<double>();
    rule->step({at::full({1}, 3.0, at::kDouble)}, 0.01);
  }
  EXPECT_NEAR(before - weights[0].second.item<double>(), 0.01, 1e-4);
}

TEST(Nadam, AWholePsiGivesItsMomentumSooner) {
  const auto slow = after(30, {{"name", "nadam"}}, 0.02);
  const auto fast =
      after(30, {{"name", "nadam"}, {"momentum_decay", 10.0}}, 0.02);
  EXPECT_GT(largest_difference(slow, fast), 1e-3);
}

}  // namespace sluice::nadam_test
