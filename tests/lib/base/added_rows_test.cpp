#include "lib/base/added_rows.h"

#include <array>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::added_rows_test {

using testing::ElementsAre;

/// Each test has a table of its own: what is added stays.
template <int table>
struct Thing {
  int value = 0;
};

template <int table>
std::span<const Row<Thing<table>>> things() {
  static constexpr std::array kRows = {
      Row<Thing<table>>{"one", "the first", {1}},
      Row<Thing<table>>{"two", "the second", {2}}};
  return with_added<Thing<table>>(kRows);
}

TEST(AddedRows, StandBehindThoseThatAreBuiltIn) {
  EXPECT_THAT(names_of(things<1>()), ElementsAre("one", "two"));
  add_row(things<1>(), {"three", "", {3}});
  add_row(things<1>(), {"four", "", {4}});
  EXPECT_THAT(names_of(things<1>()),
              ElementsAre("one", "two", "three", "four"));
  EXPECT_EQ(find_row(things<1>(), "four", "thing").make.value, 4);
}

TEST(AddedRows, AreInTheirOwnTableOnly) {
  add_row(things<2>(), {"three", "", {3}});
  EXPECT_EQ(things<3>().size(), 2U);
}

TEST(AddedRows, LeaveATableThatWasHandedOutAsItWas) {
  const auto before = things<4>();
  add_row(things<4>(), {"three", "", {3}});
  const auto between = things<4>();
  add_row(things<4>(), {"four", "", {4}});
  EXPECT_THAT(names_of(before), ElementsAre("one", "two"));
  EXPECT_THAT(names_of(between), ElementsAre("one", "two", "three"));
}

TEST(AddedRows, HaveTextsThatAreKept) {
  std::string name = "short-lived";
  const std::string_view kept = added_rows::keep(name);
  name = "overwritten";
  EXPECT_EQ(kept, "short-lived");
}

}  // namespace sluice::added_rows_test
