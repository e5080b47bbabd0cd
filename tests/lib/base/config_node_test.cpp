#include "lib/base/config_node.h"

#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::config_node_test {

ConfigNode integer(std::int64_t value, Origin origin = {}) {
  return {value, std::move(origin)};
}

std::string error_of(ConfigNode& root, const std::string& path) {
  try {
    root.set_path(path, {true, {"command line", 0}});
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Origin, NamesFileAndLine) {
  EXPECT_EQ((Origin{"a.toml", 12}.text()), "a.toml:12");
}

TEST(Origin, WithoutALineIsTheFileAlone) {
  EXPECT_EQ((Origin{"command line", 0}.text()), "command line");
}

TEST(Origin, OriginOfNothingIsTheDefault) {
  EXPECT_EQ(Origin{}.text(), "default");
}

TEST(ConfigNode, SetPathMakesTheTablesOnTheWay) {
  ConfigNode root;
  root.set_path("model.mlp.width", integer(3));
  EXPECT_EQ(root.literal(), "{model = {mlp = {width = 3}}}");
}

TEST(ConfigNode, SetReplacesInPlace) {
  ConfigNode root;
  root.set("a", integer(1));
  root.set("b", integer(2));
  root.set("a", integer(3));
  EXPECT_EQ(root.literal(), "{a = 3, b = 2}");
}

TEST(ConfigNode, SetInANumberIsABug) {
  ConfigNode number = integer(1);
  EXPECT_THROW(number.set("a", integer(2)), InternalError);
}

TEST(ConfigNode, SetPathThroughANumberNamesBothPlaces) {
  ConfigNode root;
  root.set("model", integer(3, {"x.toml", 7}));
  EXPECT_EQ(error_of(root, "model.width"),
            "command line: can't set 'width' in 'model', which is no table but "
            "integer 3 (x.toml:7)");
}

TEST(ConfigNode, SetPathRefusesAnEmptyPart) {
  ConfigNode root;
  EXPECT_EQ(error_of(root, "a..b"),
            "command line: a key has an empty part before '.b'");
}

TEST(ConfigNode, FindInANumberFindsNothing) {
  EXPECT_EQ(integer(1).find("a"), nullptr);
}

TEST(ConfigNode, EqualityIgnoresOriginAndTheOrderOfKeys) {
  ConfigNode a;
  a.set("x", integer(1, {"a.toml", 1}));
  a.set("y", integer(2));
  ConfigNode b;
  b.set("y", integer(2));
  b.set("x", integer(1));
  EXPECT_EQ(a, b);
}

TEST(ConfigNode, TablesWithOtherKeysDiffer) {
  ConfigNode a;
  a.set("x", integer(1));
  ConfigNode b;
  b.set("y", integer(1));
  EXPECT_FALSE(a == b);
}

TEST(ConfigNode, ATableWithOneKeyMoreDiffersBothWays) {
  ConfigNode less;
  less.set("x", integer(1));
  ConfigNode more = less;
  more.set("y", integer(2));
  EXPECT_FALSE(less == more);
  EXPECT_FALSE(more == less);
}

TEST(ConfigNode, AnIntegerIsNoDouble) {
  EXPECT_FALSE(integer(1) == (ConfigNode{1.0, {}}));
}

TEST(ConfigNode, DescribesEveryType) {
  EXPECT_EQ(ConfigNode{}.describe(), "nothing");
  EXPECT_EQ((ConfigNode{true, {}}.describe()), "boolean true");
  EXPECT_EQ(integer(3).describe(), "integer 3");
  EXPECT_EQ((ConfigNode{1.0, {}}.describe()), "number 1.0");
  EXPECT_EQ((ConfigNode{std::string("x"), {}}.describe()), "string 'x'");
  EXPECT_EQ((ConfigNode{ConfigNode::Array{integer(1)}, {}}.describe()),
            "list of 1 value");
  EXPECT_EQ((ConfigNode{ConfigNode::Table{}, {}}.describe()), "table");
}

TEST(ConfigNode, ALongStringIsCutInMessages) {
  const ConfigNode node = {std::string(1000, 'a'), {}};
  EXPECT_EQ(node.describe(), "string '" + std::string(60, 'a') + "...'");
}

TEST(ConfigText, ADoubleNeverLooksLikeAnInteger) {
  EXPECT_EQ(number_text(1), "1.0");
  EXPECT_EQ(number_text(-0.0), "-0.0");
  EXPECT_EQ(number_text(1e-5), "1e-05");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(ConfigText, QuotesAndControlCharactersAreEscaped) {
  EXPECT_EQ(toml_string("a\"b\\c\nd\te\x01"), R"("a\"b\\c\nd\te\u0001")");
}

TEST(ConfigText, OnlyUnusualKeysAreQuoted) {
  EXPECT_EQ(key_text("weight_decay-2"), "weight_decay-2");
  EXPECT_EQ(key_text("a b"), "\"a b\"");
  EXPECT_EQ(key_text(""), "\"\"");
}

TEST(ConfigNode, AnotherValueOfALaterLayerReplaces) {
  ConfigNode root;
  root.set("a", integer(1));
  root.set("a", integer(2, {"b.toml", 1, 1}));
  EXPECT_EQ(root.find("a")->origin.layer, 1);
  EXPECT_TRUE(root.find("a")->origin.replaces);
}

TEST(ConfigNode, TheSameValueOfALaterLayerStaysOfItsOwn) {
  ConfigNode root;
  root.set("a", integer(1));
  root.set("a", integer(1, {"b.toml", 1, 1}));
  EXPECT_EQ(root.find("a")->origin.layer, 0);
  EXPECT_FALSE(root.find("a")->origin.replaces);
}

TEST(ConfigNode, ItsLayerIsTheLatestOfAllThatIsInIt) {
  ConfigNode root;
  root.set_path("a.b", integer(1));
  root.set_path("a.c", integer(1, {"b.toml", 1, 3}));
  EXPECT_EQ(root.layer(), 3);
  root.raise(2);
  EXPECT_EQ(root.layer(), 5);
  EXPECT_EQ(root.find("a")->find("b")->layer(), 2);
}

}  // namespace sluice::config_node_test
