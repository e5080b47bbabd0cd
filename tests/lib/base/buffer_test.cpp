#include "lib/base/buffer.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace sluice::buffer_test {

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

std::size_t floats(const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>& strides) {
  return stored_bytes(DType::float32, sizes, strides) / 4;
}

TEST(Buffer, StartsOnAnAlignedAddress) {
  const Buffer buffer = allocate_buffer(3);
  EXPECT_EQ(buffer.bytes, 3u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data) % kAlignment, 0u);
}

TEST(Buffer, BufferOfNoBytesIsAllowed) {
  EXPECT_NE(allocate_buffer(0).data, nullptr);
}

TEST(Buffer, CopiesShareTheMemory) {
  const Buffer buffer = allocate_buffer(1);
  const Buffer copy = buffer;
  EXPECT_EQ(copy.data, buffer.data);
  EXPECT_EQ(buffer.owner.use_count(), 2);
}

TEST(DTypes, HaveTheSizeOfTheirElement) {
  EXPECT_EQ(size_of(DType::float64), 8u);
  EXPECT_EQ(size_of(DType::float32), 4u);
  EXPECT_EQ(size_of(DType::bfloat16), 2u);
  EXPECT_EQ(size_of(DType::boolean), 1u);
}

TEST(DTypes, OutsideTheListAreRefused) {
  EXPECT_FALSE(is_dtype(0));
  EXPECT_TRUE(is_dtype(1));
  EXPECT_TRUE(is_dtype(10));
  EXPECT_FALSE(is_dtype(11));
  EXPECT_THROW(size_of(DType{11}), InternalError);
}

TEST(StoredBytes, BytesOfAScalarAreOneElement) {
  EXPECT_EQ(floats({}, {}), 1u);
}

TEST(StoredBytes, BytesOfContiguousTensorsAreTheProduct) {
  EXPECT_EQ(floats({2, 3, 4}, {12, 4, 1}), 24u);
}

TEST(StoredBytes, BytesOfPermutedTensorsAreTheProduct) {
  EXPECT_EQ(floats({2, 3, 4, 5}, {60, 1, 15, 3}), 120u);
}

TEST(StoredBytes, CountARepeatedDimensionOnce) {
  EXPECT_EQ(floats({7, 3}, {0, 1}), 3u);
  EXPECT_EQ(floats({7, 3}, {0, 0}), 1u);
}

TEST(StoredBytes, IgnoreTheStrideOfSizeOne) {
  EXPECT_EQ(floats({1, 3}, {99, 1}), 3u);
}

TEST(StoredBytes, BytesOfEmptyTensorsAreZero) {
  EXPECT_EQ(floats({3, 0}, {1, 1}), 0u);
}

TEST(StoredBytes, RefuseStridesWithHoles) {
  EXPECT_THROW(floats({2, 3}, {4, 1}), UserError);
  EXPECT_THROW(floats({3}, {2}), UserError);
}

TEST(StoredBytes, RefuseStridesThatOverlap) {
  EXPECT_THROW(floats({2, 3}, {1, 1}), UserError);
}

TEST(StoredBytes, RefuseNegativeNumbers) {
  EXPECT_THROW(floats({-1}, {1}), UserError);
  EXPECT_THROW(floats({2}, {-1}), UserError);
}

TEST(StoredBytes, RefuseProductsThatOverflow) {
  EXPECT_THROW(floats({kHuge, 4}, {4, 1}), UserError);
  EXPECT_THROW(floats({kHuge}, {1}), UserError);
}

TEST(StoredBytes, RefuseRepeatedDimensionsThatOverflow) {
  EXPECT_THROW(floats({kHuge, kHuge}, {0, 0}), UserError);
}

TEST(StoredBytes, RefuseOverflowBesideAZero) {
  EXPECT_THROW(floats({kHuge, kHuge, 0}, {0, 1, 1}), UserError);
}

TEST(StoredBytes, RefuseAStrideWithoutItsSize) {
  EXPECT_THROW(floats({2}, {}), UserError);
}

TEST(StoredBytes, RefuseMoreThanEightDimensions) {
  const std::vector<std::int64_t> ones(9, 1);
  EXPECT_THROW(floats(ones, ones), UserError);
}

}  // namespace sluice::buffer_test
