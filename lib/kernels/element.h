#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "lib/kernels/any_device.h"

/// The codec int8 for one number: the same bits on every device.
namespace sluice {

inline constexpr std::uint32_t kSignBit = 0x8000'0000;
inline constexpr std::uint32_t kInfinityBits = 0x7f80'0000;

/// The bits of |value|. They are ordered as the magnitudes are, with infinity
/// behind all numbers and NaN behind infinity.
SLUICE_ON_ANY_DEVICE inline std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & ~kSignBit;
}

/// What a row's codes are fractions of: its largest magnitude, or NaN when
/// something in it is no finite number. `largest` are the largest
/// magnitude_bits() of the row.
SLUICE_ON_ANY_DEVICE inline float int8_scale(std::uint32_t largest) {
  constexpr std::uint32_t kNan = 0x7fc0'0000;
  return std::bit_cast<float>(largest < kInfinityBits ? largest : kNan);
}

/// A value of such a row in 127ths of the scale, to the nearest, half to even:
/// -127..127. 0 when the scale is 0 or NaN.
SLUICE_ON_ANY_DEVICE inline std::int8_t int8_of(float value, float scale) {
  const float code = scale > 0 ? rintf(value / scale * 127.0F) : 0.0F;
  return static_cast<std::int8_t>(static_cast<std::int32_t>(code));
}

/// The scale itself when it is 0 or NaN, whose bits devices would make up.
SLUICE_ON_ANY_DEVICE inline float float_of_int8(std::int8_t code, float scale) {
  return scale > 0 ? static_cast<float>(code) / 127.0F * scale : scale;
}

}  // namespace sluice
