#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// A PNG of so many pixels, four bytes each (red, green, blue, opacity), row by
/// row from the top: 8 bits a channel, sRGB. The same pixels give the same
/// bytes. Any number of threads may call it.
std::vector<std::uint8_t> encode_png(std::uint32_t height, std::uint32_t width,
                                     std::span<const std::uint8_t> rgba);

}  // namespace sluice
