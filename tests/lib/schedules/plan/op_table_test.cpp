#include "lib/schedules/plan/op_table.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

namespace sluice::op_table_test {

TEST(OpTable, HasARowForEachOpInTheirOrder) {
  std::size_t place = 0;
  for (const OpRow& row : op_rows())
    EXPECT_EQ(static_cast<std::size_t>(row.op), place++);
  EXPECT_EQ(place, kOps);
}

TEST(OpTable, TellsOpsApart) {
  std::set<char> letters;
  std::set<std::string_view> names;
  for (const OpRow& row : op_rows()) {
    letters.insert(row.letter);
    names.insert(row.name);
    EXPECT_FALSE(row.doing.empty()) << row.name;
  }
  EXPECT_EQ(letters.size(), kOps);
  EXPECT_EQ(names.size(), kOps);
}

}  // namespace sluice::op_table_test
