#include "lib/base/quantile.h"

#include <gtest/gtest.h>

namespace sluice::quantile_test {

TEST(Quantile, LiesBetweenTwoValues) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2, 5}, 0.25), 2);
  EXPECT_DOUBLE_EQ(quantile({1, 2}, 0.25), 1.25);
}

TEST(Quantile, HasTheLeastAndTheGreatestAtItsEnds) {
  EXPECT_EQ(quantile({3, 1, 2}, 0), 1);
  EXPECT_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_EQ(median({7}), 7);
}

}  // namespace sluice::quantile_test
