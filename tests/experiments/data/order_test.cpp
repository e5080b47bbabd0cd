#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/data/order/sample_order.h"
#include "lib/base/error.h"

namespace sluice::data_order_test {

using Indices = std::vector<std::int64_t>;

Indices epoch_of(SampleOrder& order, std::int64_t epoch) {
  Indices all;
  const std::int64_t first = epoch * order.batches_per_epoch();
  for (std::int64_t t = first; t < first + order.batches_per_epoch(); ++t) {
    const Indices batch = order.batch(t);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

Indices counted(std::int64_t size) {
  Indices all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(SampleOrder, AnEpochHasEverySampleOnce) {
  SampleOrder order(101, {.batch_size = 8, .seed = 1});
  EXPECT_THAT(epoch_of(order, 3),
              testing::UnorderedElementsAreArray(counted(101)));
}

TEST(SampleOrder, DiffersBetweenEpochs) {
  SampleOrder order(101, {.batch_size = 8, .seed = 1});
  EXPECT_NE(epoch_of(order, 0), epoch_of(order, 1));
}

TEST(SampleOrder, DiffersBetweenSeeds) {
  SampleOrder first(101, {.batch_size = 8, .seed = 1});
  SampleOrder second(101, {.batch_size = 8, .seed = 2});
  EXPECT_NE(epoch_of(first, 0), epoch_of(second, 0));
}

TEST(SampleOrder, DoesNotDependOnTheBatchSize) {
  SampleOrder small(101, {.batch_size = 8, .seed = 1});
  SampleOrder large(101, {.batch_size = 50, .seed = 1});
  EXPECT_EQ(epoch_of(small, 2), epoch_of(large, 2));
}

TEST(SampleOrder, DoesNotDependOnWhatWasAskedBefore) {
  SampleOrder asked(101, {.batch_size = 8, .seed = 1});
  asked.batch(70);
  asked.batch(0);
  SampleOrder fresh(101, {.batch_size = 8, .seed = 1});
  EXPECT_EQ(asked.batch(20), fresh.batch(20));
}

TEST(SampleOrder, IsTheSameOnEveryMachine) {
  SampleOrder order(10, {.batch_size = 10, .seed = 1});
  EXPECT_THAT(order.batch(0),
              testing::ElementsAre(6, 2, 5, 7, 1, 4, 9, 8, 0, 3));
}

TEST(SampleOrder, WithoutShufflingGoesThroughTheSamplesAsTheyLie) {
  SampleOrder order(10, {.batch_size = 4, .shuffled = false});
  EXPECT_THAT(order.batch(1), testing::ElementsAre(4, 5, 6, 7));
}

TEST(SampleOrder, TheLastBatchKeepsItsRealSize) {
  SampleOrder order(10, {.batch_size = 4});
  EXPECT_EQ(order.batches_per_epoch(), 3);
  EXPECT_EQ(order.batch(2).size(), 2U);
}

TEST(SampleOrder, TheNextEpochBeginsAfterTheLastBatch) {
  SampleOrder order(10, {.batch_size = 4, .shuffled = false});
  EXPECT_THAT(order.batch(3), testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(order.epoch(3), 1);
}

TEST(SampleOrder, DropLastLeavesOutABatchThatIsNotFull) {
  SampleOrder order(10,
                    {.batch_size = 4, .shuffled = false, .drop_last = true});
  EXPECT_EQ(order.batches_per_epoch(), 2);
  EXPECT_THAT(order.batch(2), testing::ElementsAre(0, 1, 2, 3));
}

TEST(SampleOrder, DropLastKeepsAFullLastBatch) {
  SampleOrder order(8, {.batch_size = 4, .drop_last = true});
  EXPECT_EQ(order.batches_per_epoch(), 2);
}

TEST(SampleOrder, RefusesABatchThatCanNeverBeFilled) {
  EXPECT_THROW(SampleOrder(3, {.batch_size = 4, .drop_last = true}), UserError);
}

TEST(SampleOrder, RefusesABatchSizeOfZero) {
  EXPECT_THROW(SampleOrder(3, {.batch_size = 0}), UserError);
}

TEST(SampleOrder, RefusesAnEmptyDataSet) {
  EXPECT_THROW(SampleOrder(0, {.batch_size = 4}), UserError);
}

}  // namespace sluice::data_order_test
