#include <cmath>

#include <gtest/gtest.h>

#include "tests/lib/updates/rules.h"

namespace sluice::rmsprop_test {

const OptimizerKeys kOther = {{"name", "rmsprop"}, {"weight_decay", 0.1},
                              {"alpha", 0.9},      {"epsilon", 1e-6},
                              {"momentum", 0.5},   {"centered", true}};

TEST(Rmsprop, HasPyTorchsWeightsAfter50Steps) {
  // Figures of torch.optim.RMSprop in float64, lr = 0.01.
  EXPECT_LT(largest_difference(after(50, {{"name", "rmsprop"}}, 0.01),
                               {0.161799317754, -0.561828878337, 0.843069082149,
                                1.80712717693}),
            1e-10);
  EXPECT_LT(largest_difference(after(50, kOther, 0.01),
                               {0.201966677116, -0.470999759034, 0.724117905101,
                                1.53019989799}),
            1e-10);
}

TEST(Rmsprop, IsItsEquationWrittenOut) {
  const PlainRule plain = [square = 0.0, mean = 0.0, velocity = 0.0](
                              double w, double g, int /*t*/) mutable {
    const double change = g + 0.1 * w;
    square = 0.9 * square + 0.1 * change * change;
    mean = 0.9 * mean + 0.1 * change;
    velocity =
        0.5 * velocity + change / (std::sqrt(square - mean * mean) + 1e-6);
    return w - 0.01 * velocity;
  };
  EXPECT_LT(
      largest_difference(after(50, kOther, 0.01), plainly_after(50, plain)),
      1e-10);
}

}  // namespace sluice::rmsprop_test
