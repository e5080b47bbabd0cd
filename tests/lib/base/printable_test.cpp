#include "lib/base/printable.h"

#include <gtest/gtest.h>

namespace sluice::printable_test {

TEST(Printable, LeavesTextAlone) {
  EXPECT_EQ(printable("plain 'text', ä € 😀"), "plain 'text', ä € 😀");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("a\nb\r\t"), "a\\nb\\r\\t");
  EXPECT_EQ(printable("\x1b[31m\x07\x7f"), "\\x1b[31m\\x07\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m");
  EXPECT_EQ(printable("a\u202eb\u2028"), "a\\u202eb\\u2028");
}

// CLI11's limits had 309 digits, and what users type may have more.
TEST(Printable, CutsNumbersThatNobodyReads) {
  EXPECT_EQ(printable("0 to " + std::string(309, '9') + ".5"),
            "0 to 99999999999999999999... (309 digits).5");
  EXPECT_EQ(printable(std::string(60, '1')), std::string(60, '1'));
}

TEST(Printable, EscapesBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf0\x9f\x98"), "\\xf0\\x9f\\x98");
}

}  // namespace sluice::printable_test
