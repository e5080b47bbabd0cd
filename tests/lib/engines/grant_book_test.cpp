#include "lib/engines/grant_book.h"

#include <gtest/gtest.h>

namespace sluice::grant_book_test {

TEST(GrantBook, WhoeverIsLeftOutIsNeitherTheFastestNorTheSlowest) {
  GrantBook book(3, /*ahead=*/4);
  book.give({}, {});
  book.leave_out(3);
  book.reach(3);
  EXPECT_EQ(book.progress().fastest, 0U);
  book.give({}, {});
  book.reach(1);
  book.reach(1);
  book.reach(2);
  EXPECT_EQ(book.progress().given, 2U);
  EXPECT_EQ(book.progress().fastest, 2U);
  EXPECT_EQ(book.progress().slowest, 1U);
}

}  // namespace sluice::grant_book_test
