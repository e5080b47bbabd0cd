#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// Sizes (bytes) are rounded up, so that a freed block fits what comes next: to
/// a multiple of 64 up to 512, above that to one of eight steps per power of
/// two. The waste of a block is below 64 bytes or 12.5 %; powers of two, the
/// usual sizes of tensors, waste nothing.
using SizeClass = std::uint32_t;

inline constexpr std::size_t kLargestBlock = std::size_t{1} << 46;
inline constexpr SizeClass kSizeClasses = 304;

/// The class of blocks for `bytes`, 1 to kLargestBlock.
constexpr SizeClass size_class_of(std::size_t bytes) {
  if (bytes <= 512) return static_cast<SizeClass>((bytes - 1) / 64);
  // 2^power < bytes <= 2^(power + 1), in eight steps.
  const int power = static_cast<int>(std::bit_width(bytes - 1)) - 1;
  const std::size_t step = (bytes - 1) >> (power - 3);  // 8 to 15
  return static_cast<SizeClass>(8 * (power - 9)) + static_cast<SizeClass>(step);
}

/// Bytes that a block of this class has room for, header excluded.
constexpr std::size_t size_of_class(SizeClass size_class) {
  if (size_class < 8) return 64 * (std::size_t{size_class} + 1);
  const std::size_t power = size_class / 8 + 8;
  const std::size_t step = size_class % 8 + 9;  // 9 to 16
  return step << (power - 3);
}

static_assert(size_class_of(kLargestBlock) == kSizeClasses - 1);
static_assert(size_of_class(kSizeClasses - 1) == kLargestBlock);

}  // namespace sluice
