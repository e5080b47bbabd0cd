#include "experiments/config/files/overrides.h"

#include <string>
#include <string_view>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "lib/base/error.h"

namespace sluice::config_overrides_test {

using testing::StartsWith;

std::string after(std::string_view override) {
  ConfigNode root;
  apply_override(root, override);
  return root.literal();
}

std::string error_of(std::string_view override, std::string_view config = "") {
  ConfigNode root = parse_toml(config, "x.toml");
  try {
    apply_override(root, override);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Override, ReadsNumbersBooleansAndLists) {
  EXPECT_EQ(after("lr=1e-3"), "{lr = 0.001}");
  EXPECT_EQ(after("epochs=2"), "{epochs = 2}");
  EXPECT_EQ(after("drain=false"), "{drain = false}");
  EXPECT_EQ(after("hidden=[64,64]"), "{hidden = [64, 64]}");
  EXPECT_EQ(after("blocks=[\"0-3\",\"4-\"]"), "{blocks = [\"0-3\", \"4-\"]}");
}

TEST(Override, ABareWordIsAString) {
  EXPECT_EQ(after("policy=local_loss"), "{policy = \"local_loss\"}");
}

TEST(Override, APathIsAString) {
  EXPECT_EQ(after("data=../d/x.gz"), "{data = \"../d/x.gz\"}");
}

TEST(Override, ADateIsAString) {
  EXPECT_EQ(after("name=2024-01-31"), "{name = \"2024-01-31\"}");
}

TEST(Override, AnEmptyValueIsAnEmptyString) {
  EXPECT_EQ(after("name="), "{name = \"\"}");
}

TEST(Override, AQuotedNumberIsAString) {
  EXPECT_EQ(after("name=\"7\""), "{name = \"7\"}");
}

TEST(Override, OnlyTheFirstEqualsSignSeparates) {
  EXPECT_EQ(after("name=a=b"), "{name = \"a=b\"}");
}

TEST(Override, ALineBreakCannotAddAKey) {
  EXPECT_EQ(after("a=1\nb = 2"), "{a = \"1\\nb = 2\"}");
}

TEST(Override, SpacesAroundKeyAndValueDoNotCount) {
  EXPECT_EQ(after(" lr = 0.5 "), "{lr = 0.5}");
}

TEST(Override, MakesTheTablesOnTheWay) {
  EXPECT_EQ(after("a.b.c=1"), "{a = {b = {c = 1}}}");
}

TEST(Override, ReplacesWhatTheFileSaid) {
  ConfigNode root = parse_toml("[a]\nb = 1\nc = 2\n", "x.toml");
  apply_override(root, "a.b=3");
  EXPECT_EQ(root.literal(), "{a = {b = 3, c = 2}}");
}

TEST(Override, ItsOriginIsTheCommandLine) {
  ConfigNode root;
  apply_override(root, "a=[{b = 1}]");
  const ConfigNode& list = *root.find("a");
  EXPECT_EQ(list.origin.text(), "command line");
  const ConfigNode& row = std::get<ConfigNode::Array>(list.value)[0];
  EXPECT_EQ(row.find("b")->origin.text(), "command line");
}

TEST(OverrideErrors, AWordWithoutEqualsSignIsNoOverride) {
  EXPECT_EQ(error_of("foo"),
            "command line: 'foo' is no override; write it as key=value");
}

TEST(OverrideErrors, EmptyPartsOfTheKeyAreRefused) {
  EXPECT_EQ(error_of("a..b=1"),
            "command line: 'a..b=1' has a key with an empty part; write it as "
            "a.b.c=value");
  EXPECT_THAT(error_of("=1"), StartsWith("command line: '=1' has a key"));
  EXPECT_THAT(error_of(".a=1"), StartsWith("command line: '.a=1' has a key"));
  EXPECT_THAT(error_of("a.=1"), StartsWith("command line: 'a.=1' has a key"));
}

TEST(OverrideErrors, ThroughAValueIsRefused) {
  EXPECT_EQ(error_of("model.width=3", "\nmodel = 'mlp'\n"),
            "command line: can't set 'width' in 'model', which is no table but "
            "string 'mlp' (x.toml:2)");
}

TEST(OverrideErrors, ThroughAListIsRefused) {
  EXPECT_EQ(error_of("rows.0.a=3", "rows = [1, 2]\n"),
            "command line: can't set '0.a' in 'rows', which is no table but "
            "list of 2 values (x.toml:1)");
}

TEST(OverrideErrors, ABrokenListIsNotTakenAsAString) {
  EXPECT_THAT(error_of("blocks=[1, x]"),
              StartsWith("command line: blocks: '[1, x]' is no TOML value: "));
}

TEST(OverrideErrors, WhatIsNoUtf8IsRefused) {
  EXPECT_EQ(error_of("name=\xff"),
            "command line: name: Encountered invalid utf-8 sequence");
}

}  // namespace sluice::config_overrides_test
