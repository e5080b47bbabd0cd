#include <cmath>

#include <gtest/gtest.h>

#include "tests/lib/updates/rules.h"

namespace sluice::adagrad_test {

const OptimizerKeys kOther = {{"name", "adagrad"},
                              {"weight_decay", 0.1},
                              {"lr_decay", 0.1},
                              {"initial_sum", 0.5},
                              {"epsilon", 1e-6}};

TEST(Adagrad, HasPyTorchsWeightsAfter50Steps) {
  // Figures of torch.optim.Adagrad in float64, lr = 0.05.
  EXPECT_LT(largest_difference(after(50, {{"name", "adagrad"}}, 0.05),
                               {0.323148094667, -0.535985997599, 0.919391199673,
                                1.90526365725}),
            1e-10);
  EXPECT_LT(largest_difference(after(50, kOther, 0.05),
                               {0.406127330745, -0.525309946411, 0.92458583982,
                                1.90568141263}),
            1e-10);
}

TEST(Adagrad, IsItsEquationWrittenOut) {
  const PlainRule plain = [sum = 0.5](double w, double g, int t) mutable {
    const double change = g + 0.1 * w;
    sum += change * change;
    return w - 0.05 / (1 + 0.1 * (t - 1)) * change / (std::sqrt(sum) + 1e-6);
  };
  EXPECT_LT(
      largest_difference(after(50, kOther, 0.05), plainly_after(50, plain)),
      1e-12);
}

}  // namespace sluice::adagrad_test
