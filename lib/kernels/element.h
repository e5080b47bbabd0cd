#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "lib/kernels/any_device.h"

/// One number through a codec: the same bits on every device.
namespace sluice {

inline constexpr std::uint32_t kSignBit = 0x8000'0000;
inline constexpr std::uint32_t kInfinityBits = 0x7f80'0000;

/// The bits of |value|. They are ordered as the magnitudes are, with infinity
/// behind all numbers and NaN behind infinity.
SLUICE_ON_ANY_DEVICE inline std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & ~kSignBit;
}

/// To the nearest, half to even; beyond the largest number (3.39e38) to
/// infinity.
SLUICE_ON_ANY_DEVICE inline std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = magnitude_bits(value) > kInfinityBits;
  const std::uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return static_cast<std::uint16_t>(is_nan ? 0x7fc0 : rounded >> 16);
}

SLUICE_ON_ANY_DEVICE inline float float_of_bf16(std::uint16_t code) {
  return std::bit_cast<float>(std::uint32_t{code} << 16);
}

/// To the nearest, half to even; beyond 65504, the largest number, to 65504 or
/// -65504, infinities too. NaN stays NaN.
SLUICE_ON_ANY_DEVICE inline std::uint16_t fp16_of(float value) {
  constexpr std::uint32_t kLargest = 0x477f'e000;         // 65504
  constexpr std::uint32_t kSmallestNormal = 0x3880'0000;  // 2^-14
  const std::uint32_t magnitude = magnitude_bits(value);
  const std::uint32_t limited = magnitude < kLargest ? magnitude : kLargest;
  // Below the smallest normal number codes count multiples of 2^-24.
  const float tiny =
      limited < kSmallestNormal ? std::bit_cast<float>(limited) : 0.0F;
  const auto subnormal = static_cast<std::uint32_t>(
      static_cast<std::int32_t>(rintf(tiny * 0x1p24F)));
  const std::uint32_t rounded = limited + 0xfff + ((limited >> 13) & 1);
  const std::uint32_t normal = (rounded >> 13) - (112U << 10);
  std::uint32_t code = limited < kSmallestNormal ? subnormal : normal;
  code = magnitude > kInfinityBits ? 0x7e00 : code;
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) & kSignBit;
  return static_cast<std::uint16_t>(code | (sign >> 16));
}

SLUICE_ON_ANY_DEVICE inline float float_of_fp16(std::uint16_t code) {
  const std::uint32_t magnitude = code & 0x7fffU;
  const std::uint32_t sign = (code & 0x8000U) << 16;
  const float subnormal =
      static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
  std::uint32_t bits = (magnitude << 13) + (112U << 23);
  bits = magnitude >= 0x7c00 ? (magnitude << 13) | kInfinityBits : bits;
  bits = magnitude < 0x400 ? std::bit_cast<std::uint32_t>(subnormal) : bits;
  return std::bit_cast<float>(bits | sign);
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
