#pragma once

#include <cstdint>

#include "lib/kernels/masks.h"
#include "lib/kernels/philox.h"

namespace sluice {

/// Elements that one counter gives.
inline constexpr std::int64_t kElementsOfCounter = 4;

/// The numbers of four elements, by the words of their counter.
SLUICE_ON_ANY_DEVICE inline PhiloxWords mask_numbers(const MaskRule& rule,
                                                     std::uint32_t low,
                                                     std::uint32_t high) {
  return philox({{low, high, 0, 0}}, rule.key);
}

/// Value of the mask at the element with that number.
SLUICE_ON_ANY_DEVICE inline float mask_element(const MaskRule& rule,
                                               std::uint32_t number) {
  return number < rule.dropped_below ? 0.0F : rule.kept;
}

}  // namespace sluice
