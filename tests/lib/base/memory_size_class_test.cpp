#include <gtest/gtest.h>

#include "lib/base/memory/size_class.h"

namespace sluice::memory_size_class_test {

TEST(SizeClass, HoldsItsSize) {
  for (std::size_t bytes = 1; bytes < 100'000; ++bytes) {
    ASSERT_GE(size_of_class(size_class_of(bytes)), bytes) << bytes;
  }
}

TEST(SizeClass, WastesLessThan64BytesOrAnEighth) {
  for (std::size_t bytes = 1; bytes < 100'000; ++bytes) {
    const std::size_t waste = size_of_class(size_class_of(bytes)) - bytes;
    ASSERT_TRUE(waste < 64 || 8 * waste < bytes) << bytes;
  }
}

TEST(SizeClass, SizesGrowAndStayAligned) {
  for (SizeClass i = 1; i < kSizeClasses; ++i) {
    ASSERT_GT(size_of_class(i), size_of_class(i - 1));
    ASSERT_EQ(size_of_class(i) % 64, 0u);
  }
}

TEST(SizeClass, SizeOfAClassIsInThatClass) {
  for (SizeClass i = 0; i < kSizeClasses; ++i) {
    ASSERT_EQ(size_class_of(size_of_class(i)), i);
  }
}

TEST(SizeClass, PowersOfTwoWasteNothing) {
  for (std::size_t bytes = 64; bytes <= kLargestBlock; bytes *= 2) {
    ASSERT_EQ(size_of_class(size_class_of(bytes)), bytes);
  }
}

}  // namespace sluice::memory_size_class_test
