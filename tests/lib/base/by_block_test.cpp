#include "lib/base/by_block.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::by_block_test {

TEST(ByBlock, CountsFromOne) {
  std::vector<int> list = {10, 20};
  by_block(list, 2) += 1;
  EXPECT_EQ(by_block(list, 1), 10);
  EXPECT_EQ(by_block(list, 2), 21);
}

TEST(ByBlock, ThatIsNotThereIsAnErrorOrNothing) {
  const std::vector<int> list = {10, 20};
  for (const int k : {-1, 0, 3}) {
    EXPECT_THROW(by_block(list, k), std::out_of_range);
    EXPECT_EQ(find_by_block(list, k), nullptr);
  }
  EXPECT_EQ(*find_by_block(list, 1), 10);
}

}  // namespace sluice::by_block_test
