#include "lib/base/nearest.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::nearest_test {

const std::vector<std::string> kNames = {"momentum", "lr", "weight_decay"};

TEST(Nearest, AMissingLetterIsASlipOfTheFinger) {
  EXPECT_EQ(perhaps("momntum", kNames), " (did you mean 'momentum'?)");
}

TEST(Nearest, SwappedNeighboursCountAsOneSlip) {
  EXPECT_EQ(perhaps("rl", kNames), " (did you mean 'lr'?)");
}

TEST(Nearest, CaseDoesNotCount) {
  EXPECT_EQ(perhaps("WEIGHT_DECAY", kNames), " (did you mean 'weight_decay'?)");
}

TEST(Nearest, AMinusForAnUnderscoreIsFound) {
  EXPECT_EQ(perhaps("weight-decay", kNames), " (did you mean 'weight_decay'?)");
}

TEST(Nearest, AnotherWordIsNotGuessed) {
  EXPECT_EQ(perhaps("nesterov", kNames), "");
}

TEST(Nearest, AWordThatSharesNoLetterIsNotGuessed) {
  EXPECT_EQ(perhaps("x", std::vector<std::string>{"y"}), "");
}

TEST(Nearest, TheNearestOfSeveralIsNamed) {
  const std::vector<std::string> names = {"blocs", "blocks"};
  EXPECT_EQ(perhaps("block", names), " (did you mean 'blocs'?)");
  EXPECT_EQ(perhaps("blockss", names), " (did you mean 'blocks'?)");
}

TEST(Nearest, NothingIsGuessedFromNoNames) {
  EXPECT_EQ(perhaps("lr", std::vector<std::string>{}), "");
}

TEST(Nearest, AnEndlessWordIsNotCompared) {
  EXPECT_EQ(perhaps(std::string(1 << 20, 'a'), kNames), "");
}

TEST(Nearest, NamesAreJoinedWithCommas) {
  EXPECT_EQ(joined(kNames), "momentum, lr, weight_decay");
}

}  // namespace sluice::nearest_test
