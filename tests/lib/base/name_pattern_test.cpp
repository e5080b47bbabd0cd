#include "lib/base/name_pattern.h"

#include <gtest/gtest.h>

namespace sluice::name_pattern_test {

TEST(NamePattern, TakesStarsOverDotsQuestionMarksAndSets) {
  EXPECT_TRUE(matches_pattern("*.weight", "layers.0.linear.weight"));
  EXPECT_FALSE(matches_pattern("*.weight", "layers.0.linear.bias"));
  EXPECT_TRUE(matches_pattern("layers.?.bias", "layers.7.bias"));
  EXPECT_FALSE(matches_pattern("layers.?.bias", "layers.17.bias"));
  EXPECT_TRUE(matches_pattern("layers.[0-3].*", "layers.2.weight"));
  EXPECT_FALSE(matches_pattern("layers.[0-3].*", "layers.4.weight"));
  EXPECT_FALSE(matches_pattern("weight", "layers.0.weight")) << "a part";
}

TEST(NamePattern, ListTakesWhatOneOfItTakes) {
  EXPECT_TRUE(matches_any({"*.bias", "head.*"}, "head.weight"));
  EXPECT_FALSE(matches_any({"*.bias", "head.*"}, "body.weight"));
  EXPECT_FALSE(matches_any({}, "head.weight"));
}

}  // namespace sluice::name_pattern_test
