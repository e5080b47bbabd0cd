#include "lib/base/table.h"

#include <array>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::table_test {

using IntRow = Row<int>;
constexpr std::array<IntRow, 2> kRows = {
    IntRow{"linear", "one layer", 1},
    IntRow{"predsim", "two losses", 2},
};

TEST(Table, ARowIsFoundByItsName) {
  const IntRow& row =
      find_row(std::span<const IntRow>(kRows), "predsim", "head");
  EXPECT_EQ(row.make, 2);
}

TEST(Table, AnUnknownNameIsAnErrorWithAllNamesAndTheNearest) {
  try {
    find_row(std::span<const IntRow>(kRows), "predsin", "head");
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "unknown head 'predsin' (did you mean 'predsim'?); there are: "
                 "linear, predsim");
  }
}

}  // namespace sluice::table_test
