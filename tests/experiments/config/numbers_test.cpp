#include "experiments/config/numbers.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"

namespace sluice::numbers_test {

ConfigNode numbers(const std::string& lines) {
  return numbers_of(small_experiment(lines).resolved);
}

/// Runs from before the key existed had the numbers of false.
TEST(Numbers, HaveTf32OnlyWhereItIsSet) {
  EXPECT_EQ(numbers("").find("tf32"), nullptr);
  EXPECT_EQ(numbers("tf32 = false\n"), numbers(""));
  EXPECT_EQ(first_difference(numbers("tf32 = true\n"), numbers("")),
            "tf32 is true, not absent");
}

TEST(Numbers, HaveALimitOfSamplesOnlyWhereThereIsOne) {
  EXPECT_EQ(numbers("").find("limit"), nullptr);
  EXPECT_EQ(first_difference(numbers("limit = {train = 64}\n"), numbers("")),
            "limit is {train = 64}, not absent");
  EXPECT_NE(first_difference(numbers("limit = {train = 64}\n"),
                             numbers("limit = {train = 64, evaluation = 8}\n")),
            "");
}

TEST(Numbers, HaveAnAssistantOnlyWhereThereIsOne) {
  const auto with = [](const std::string& assist) {
    return numbers(
        "boundary = {policy = 'backprop'}\n"
        "data = {train = 320, test = 64" +
        assist + "}\n");
  };
  EXPECT_EQ(with("").find("data")->find("assist"), nullptr);
  EXPECT_EQ(with(", assist = {learning_rate = 1.0}"), with(""));
  EXPECT_NE(with(", assist = {acceptance = 0.3}"), with(""));
}

TEST(Numbers, HaveAWarmUpInTurnsOnlyWhereThereIsOne) {
  EXPECT_EQ(first_difference(
                numbers("optimizer = {schedule = {warmup_turns = 5}}\n"),
                numbers("optimizer = {schedule = {warmup_turns = 0}}\n")),
            "optimizer.1.schedule.warmup_turns is 5, not absent");
}

}  // namespace sluice::numbers_test
