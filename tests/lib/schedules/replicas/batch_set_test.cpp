#include "lib/schedules/replicas/batch_set.h"

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::batch_set_test {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BatchSet, HasEachBatchOnce) {
  BatchSet set;
  EXPECT_THAT(set.bounds(), IsEmpty());
  for (const std::int64_t batch : {3, 5, 4, 0}) EXPECT_TRUE(set.insert(batch));
  for (const std::int64_t batch : {3, 4, 5, 0}) EXPECT_FALSE(set.insert(batch));
  EXPECT_THAT(set.bounds(), ElementsAre(0, 1, 3, 6));
}

TEST(BatchSet, IsASetInAnyOrder) {
  std::mt19937 draw(5);
  BatchSet set;
  std::set<std::int64_t> expected;
  for (int i = 0; i < 2000; ++i) {
    const auto batch = static_cast<std::int64_t>(draw() % 800);
    ASSERT_EQ(set.insert(batch), expected.insert(batch).second) << batch;
  }
  BatchSet again;
  again.restore(set.bounds());
  for (std::int64_t batch = 0; batch < 800; ++batch)
    ASSERT_EQ(again.insert(batch), !expected.contains(batch)) << batch;
  EXPECT_THAT(again.bounds(), ElementsAre(0, 800));
}

TEST(BatchSet, RefusesDamagedBounds) {
  BatchSet set;
  EXPECT_THROW(set.restore({1, 2, 3}), UserError);
  EXPECT_THROW(set.restore({4, 2}), UserError);
  EXPECT_THROW(set.restore({0, 2, 2, 3}), UserError);
}

}  // namespace sluice::batch_set_test
