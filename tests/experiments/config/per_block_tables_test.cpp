#include "experiments/config/per_block_tables.h"

#include <string>

#include <gtest/gtest.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "lib/base/error.h"

namespace sluice::per_block_tables_test {

constexpr NumberedKeys kKeys = {.fresh = "policy", .shared = "codec"};

ConfigNode table(const std::string& text) {
  return parse_toml(text, "a.toml");
}

std::string tables(const ConfigNode& table, std::int64_t count,
                   const NumberedKeys& keys = kKeys) {
  return per_block_tables(&table, count, keys, "boundary").tables.literal();
}

std::string error_of(const ConfigNode& table, std::int64_t count,
                     const NumberedKeys& keys = kKeys) {
  try {
    per_block_tables(&table, count, keys, "boundary");
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(PerBlockTables, PlainKeysHoldForAllNumberedOnesForOne) {
  EXPECT_EQ(tables(table("x = 1\n2 = {x = 2}\n"), 3),
            "{1 = {x = 1}, 2 = {x = 2}, 3 = {x = 1}}");
}

TEST(PerBlockTables, OneThatNamesItsOwnTakesOnlyWhatIsShared) {
  EXPECT_EQ(tables(table("x = 1\ncodec = 2\n1 = {policy = 'p'}\n"), 2),
            "{1 = {codec = 2, policy = \"p\"}, 2 = {codec = 2, x = 1}}");
}

TEST(PerBlockTables, LastIsTheLastWhateverTheirNumber) {
  const ConfigNode written = table("x = 1\nlast = {x = 2}\n");
  EXPECT_EQ(tables(written, 2), "{1 = {x = 1}, 2 = {x = 2}}");
  EXPECT_EQ(tables(written, 1), "{1 = {x = 2}}");
  EXPECT_EQ(tables(written, 0), "{}");
}

TEST(PerBlockTables, LastAndItsNumberAreMerged) {
  EXPECT_EQ(tables(table("2 = {h = {x = 1}}\nlast = {h = {y = 2}}\n"), 2),
            "{1 = {}, 2 = {h = {x = 1, y = 2}}}");
}

TEST(PerBlockTables, LastAndItsNumberCanNotSayTheSameInOneLayer) {
  EXPECT_EQ(error_of(table("2.h.x = 1\nlast.h.x = 2\n"), 2),
            "a.toml:2: boundary.last.h.x: here boundary.2 is the last one, and "
            "says it too (a.toml:1); say it once");
  EXPECT_EQ(tables(table("2.h.x = 1\nlast.h.x = 2\n"), 3),
            "{1 = {}, 2 = {h = {x = 1}}, 3 = {h = {x = 2}}}");
}

TEST(PerBlockTables, TheLaterLayerWinsBetweenLastAndItsNumber) {
  ConfigNode by_number = table("last = {x = 1}\n");
  apply_override(by_number, "2.x=2");
  EXPECT_EQ(tables(by_number, 2), "{1 = {}, 2 = {x = 2}}");
  ConfigNode as_last = table("2 = {x = 1}\n");
  apply_override(as_last, "last.x=2");
  EXPECT_EQ(tables(as_last, 2), "{1 = {}, 2 = {x = 2}}");
}

TEST(PerBlockTables, ANumberThatIsNotThereIsAnError) {
  EXPECT_EQ(error_of(table("3 = {x = 1}\n"), 2),
            "a.toml:1: boundary.3: there are only numbers 1 to 2");
  EXPECT_EQ(error_of(table("1 = {x = 1}\n"), 0),
            "a.toml:1: boundary.1: there is none");
}

TEST(PerBlockTables, ANumberOfAFormerCutIsIgnoredAndTold) {
  const ConfigNode written = table("x = 1\n3 = {x = 2}\n");
  const PerBlockTables made =
      per_block_tables(&written, 2, {.recut_in = 1}, "boundary");
  EXPECT_EQ(made.tables.literal(), "{1 = {x = 1}, 2 = {x = 1}}");
  ASSERT_EQ(made.ignored.size(), 1U);
  EXPECT_EQ(made.ignored[0],
            "a.toml:2: boundary.3: there are only numbers 1 to 2");
}

TEST(PerBlockTables, ANumberBesideTheCutIsAnErrorAllTheSame) {
  ConfigNode written = table("3 = {x = 2}\n");
  apply_override(written, "3.x=4");
  EXPECT_EQ(error_of(written, 2, {.recut_in = kCommandLineLayer}),
            "a.toml:1: boundary.3: there are only numbers 1 to 2");
}

TEST(PerBlockTables, ACommonKeyThatNothingTakesIsAnError) {
  EXPECT_EQ(error_of(table("x = 1\n1 = {policy = 'p'}\n"), 1),
            "a.toml:1: boundary.x: nothing takes this key: each numbered table "
            "names its own policy, and then takes no other common key");
}

TEST(PerBlockTables, ACommonKeyThatAFormerCutTookIsIgnored) {
  const ConfigNode written = table("x = 1\n1 = {policy = 'p'}\n");
  NumberedKeys keys = kKeys;
  keys.recut_in = 1;
  const PerBlockTables made = per_block_tables(&written, 1, keys, "boundary");
  EXPECT_EQ(made.tables.literal(), "{1 = {policy = \"p\"}}");
  EXPECT_EQ(made.ignored.size(), 1U);
}

TEST(PerBlockTables, TextsNameKeysAsTheyAreWritten) {
  const ConfigNode written =
      table("x = 1\ny = 1\n1 = {x = 2}\nlast = {x = 3}\n");
  const auto named = [&](const std::string& key, std::int64_t number) {
    return as_written("a: boundary." + key + ": b", &written, "boundary",
                      number, 3);
  };
  EXPECT_EQ(named("1.x", 1), "a: boundary.1.x: b");
  EXPECT_EQ(named("1.y", 1), "a: boundary.y: b");
  EXPECT_EQ(named("2.x", 2), "a: boundary.x: b");
  EXPECT_EQ(named("3.x", 3), "a: boundary.last.x: b");
  EXPECT_EQ(named("3.y", 3), "a: boundary.y: b");
}

}  // namespace sluice::per_block_tables_test
