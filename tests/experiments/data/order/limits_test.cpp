#include "experiments/data/order/limits.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "experiments/data/data_sets.h"
#include "experiments/data/samples/samples.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::limits_test {

using Positions = std::vector<std::int64_t>;

DataSet digits(const DataLimits& limits) {
  ConfigNode config = {.value = ConfigNode::Table{}};
  config.set("train", {.value = std::int64_t{200}});
  config.set("test", {.value = std::int64_t{20}});
  config.set("validation", {.value = std::int64_t{50}});
  Fields fields(&config, "data");
  return with_limits(
      find_row(data_sets(), "drawn_digits", "data set").make(fields)(""),
      limits);
}

Positions positions_in(const Split& split) {
  Positions positions;
  for (std::int64_t i = 0; i < split.size(); ++i)
    positions.push_back(split.samples()->position(i, {}));
  return positions;
}

TEST(Limits, TakeSamplesFromAllOverASplit) {
  const DataSet all = digits({});
  const DataSet some = digits({.train = 3, .evaluation = 4});
  const Positions train = positions_in(all.train);
  const Positions few = positions_in(some.train);
  ASSERT_EQ(few.size(), 3);
  for (std::size_t i = 0; i < few.size(); ++i)
    EXPECT_EQ(
        (std::find(train.begin(), train.end(), few[i]) - train.begin()) / 50,
        static_cast<std::ptrdiff_t>(i));
  const Positions test = positions_in(some.test);
  ASSERT_EQ(test.size(), 4);
  for (std::size_t i = 0; i < test.size(); ++i)
    EXPECT_EQ(test[i] / 5, static_cast<std::int64_t>(i));
  EXPECT_EQ(some.validation.size(), 4);
}

TEST(Limits, LimitsOfNoneOrMoreThanThereAreChangeNothing) {
  const DataSet all = digits({});
  EXPECT_EQ(all.train.size(), 150);
  EXPECT_EQ(positions_in(digits({.train = 151, .evaluation = 1000}).train),
            positions_in(all.train));
  EXPECT_EQ(digits({.train = 151, .evaluation = 1000}).test.size(), 20);
}

TEST(Limits, LimitsOfARunMakeItsEpochsShorter) {
  const Experiment whole = small_experiment("turns = 0\nepochs = 2\n");
  const Experiment limited = small_experiment(
      "turns = 0\nepochs = 2\nlimit = {train = 64, evaluation = 10}\n");
  EXPECT_EQ(whole.turns_per_epoch, 10);
  EXPECT_EQ(limited.turns_per_epoch, 2);
  EXPECT_EQ(limited.length.turns, 4);
  EXPECT_EQ(limited.data->test.size(), 10);
  EXPECT_EQ(limited.length.evaluation_batches, 1);
}

}  // namespace sluice::limits_test
