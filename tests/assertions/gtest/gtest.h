// Found before GoogleTest's own header, which it includes: assertions are
// counted as they run, so that a test in which none ran fails (assertions.cpp).
// SLUICE_MARGINS=FILE has each comparison of a number with a small limit note
// how much of the limit it took: a limit that one processor meets by a hair,
// another one misses.
#pragma once

#include <cmath>
#include <type_traits>

#include_next <gtest/gtest.h>

namespace sluice::assertions {

/// Counts an assertion. Always 0: the selector of the switch below.
int count() noexcept;

/// Adds a line to the file of SLUICE_MARGINS, if there is one: the part of its
/// limit that a number took, and the running test.
void note_margin(double found, double limit, const char* text) noexcept;

/// EXPECT_LT and EXPECT_NEAR.
template <class Left, class Right>
testing::AssertionResult is_less(const char* left_text, const char* right_text,
                                 const Left& left, const Right& right) {
  if constexpr (std::is_floating_point_v<Left> &&
                std::is_floating_point_v<Right>)
    note_margin(static_cast<double>(left), static_cast<double>(right),
                left_text);
  return testing::internal::CmpHelperLT(left_text, right_text, left, right);
}
inline testing::AssertionResult is_near(const char* left_text,
                                        const char* right_text,
                                        const char* limit_text, double left,
                                        double right, double limit) {
  note_margin(std::abs(left - right), limit, left_text);
  return testing::internal::DoubleNearPredFormat(
      left_text, right_text, limit_text, left, right, limit);
}

}  // namespace sluice::assertions

#undef EXPECT_LT
#define EXPECT_LT(left, right) \
  EXPECT_PRED_FORMAT2(::sluice::assertions::is_less, left, right)
#undef EXPECT_NEAR
#define EXPECT_NEAR(left, right, limit) \
  EXPECT_PRED_FORMAT3(::sluice::assertions::is_near, left, right, limit)

// Every EXPECT_ and ASSERT_ macro begins with it.
#undef GTEST_AMBIGUOUS_ELSE_BLOCKER_
#define GTEST_AMBIGUOUS_ELSE_BLOCKER_    \
  switch (::sluice::assertions::count()) \
  case 0:                                \
  default:  // NOLINT
