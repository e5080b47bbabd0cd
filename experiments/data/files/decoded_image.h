#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// A picture in colour: row by row from the top, three bytes a pixel (red,
/// green, blue).
struct DecodedImage {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> rgb = {};
};

/// Pixels that a picture may have: with them it takes 192 MiB.
inline constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 26;

/// Decodes a PNG or JPEG, whichever the bytes are, whatever the file is called.
/// Grey becomes red = green = blue. Of a PNG, 16 bits a channel are rounded to
/// 8; what shines through it is white: round((c * a + 255 * (255 - a)) / 255);
/// and one that states another gamma than sRGB's is converted to sRGB. Any
/// number of threads may call it. Throws UserError in one line that begins with
/// `path`, for what is damaged, cut off, neither, or larger than `most_pixels`.
DecodedImage decode_image(std::span<const std::uint8_t> bytes,
                          const std::string& path,
                          std::uint64_t most_pixels = kMostPixels);

}  // namespace sluice
