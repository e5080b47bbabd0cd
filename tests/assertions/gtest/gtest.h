// Found before GoogleTest's own header, which it includes: assertions are
// counted as they run, so that a test in which none ran fails (assertions.cpp).
#pragma once

#include_next <gtest/gtest.h>

namespace sluice::assertions {

/// Counts an assertion. Always 0: the selector of the switch below.
int count() noexcept;

}  // namespace sluice::assertions

// Every EXPECT_ and ASSERT_ macro begins with it.
#undef GTEST_AMBIGUOUS_ELSE_BLOCKER_
#define GTEST_AMBIGUOUS_ELSE_BLOCKER_    \
  switch (::sluice::assertions::count()) \
  case 0:                                \
  default:  // NOLINT
