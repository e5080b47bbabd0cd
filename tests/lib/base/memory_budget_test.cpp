#include <gtest/gtest.h>

#include "lib/base/memory/budget.h"

namespace sluice::memory_budget_test {

constexpr std::size_t kGiB = std::size_t{1} << 30;
constexpr std::size_t kSlack = MemoryBudget::kSlackBytes;

TEST(MemoryBudget, AllowsHalfOfThePeakAsCache) {
  MemoryBudget budget;
  budget.mapped(4 * kGiB);
  budget.taken(4 * kGiB);
  budget.given_back(4 * kGiB);
  EXPECT_EQ(budget.excess(2 * kGiB + kSlack), 0u);
  EXPECT_EQ(budget.excess(2 * kGiB + kSlack + 1), 1u);
}

TEST(MemoryBudget, CountsWhatWillBeInUseAsThePeak) {
  MemoryBudget budget;
  budget.mapped(4 * kGiB);
  budget.taken(4 * kGiB);
  EXPECT_EQ(budget.excess(100 * kGiB), 0u);
}

TEST(MemoryBudget, ForgetsThePeakWhenTold) {
  MemoryBudget budget;
  budget.mapped(4 * kGiB);
  budget.taken(4 * kGiB);
  budget.given_back(4 * kGiB);
  EXPECT_EQ(budget.excess(0), 0u);
  budget.reset_peak();
  EXPECT_EQ(budget.excess(0), 4 * kGiB - kSlack);
}

}  // namespace sluice::memory_budget_test
