#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <zlib.h>

#include "tests/experiments/data/data_test_files.h"

namespace sluice {

/// The image that expected bytes were made of, with Pillow 11.3:
///   putdata([((x*37+y*11)%256, (x*5+y*91+17)%256, (x*y*13+201)%256)
///            for y in range(height) for x in range(width)])
/// Three bytes a pixel.
inline Bytes patterned(std::size_t height, std::size_t width) {
  Bytes rgb;
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (const std::size_t value :
           {x * 37 + y * 11, x * 5 + y * 91 + 17, x * y * 13 + 201})
        rgb.push_back(static_cast<std::uint8_t>(value % 256));
  return rgb;
}

inline void append_number(Bytes& to, std::uint32_t number) {
  for (const int shift : {24, 16, 8, 0})
    to.push_back(static_cast<std::uint8_t>(number >> shift));
}

inline void append_chunk(Bytes& to, std::string_view type, const Bytes& data) {
  append_number(to, static_cast<std::uint32_t>(data.size()));
  Bytes chunk(type.begin(), type.end());
  chunk.insert(chunk.end(), data.begin(), data.end());
  to.insert(to.end(), chunk.begin(), chunk.end());
  append_number(to, static_cast<std::uint32_t>(crc32(
                        0, chunk.data(), static_cast<uInt>(chunk.size()))));
}

/// How the PNG specification numbers its kinds.
enum class PngKind : std::uint8_t { grey = 0, rgb = 2, palette = 3, rgba = 6 };

/// A PNG of `bytes`, which are its rows without filters.
inline Bytes png_of(std::uint32_t height, std::uint32_t width, PngKind kind,
                    const Bytes& bytes, std::uint8_t depth = 8,
                    const Bytes& palette = {}) {
  Bytes rows;
  const std::size_t row = bytes.size() / height;
  for (std::size_t y = 0; y < height; ++y) {
    rows.push_back(0);
    rows.insert(rows.end(),
                bytes.begin() + static_cast<std::ptrdiff_t>(y * row),
                bytes.begin() + static_cast<std::ptrdiff_t>((y + 1) * row));
  }
  uLongf size = ::compressBound(static_cast<uLong>(rows.size()));
  Bytes packed(size);
  ::compress(packed.data(), &size, rows.data(),
             static_cast<uLong>(rows.size()));
  packed.resize(size);
  Bytes png = {0x89, 'P', 'N', 'G', 0x0d, 0x0a, 0x1a, 0x0a};
  Bytes header;
  append_number(header, width);
  append_number(header, height);
  header.push_back(depth);
  header.push_back(static_cast<std::uint8_t>(kind));
  header.insert(header.end(), {0, 0, 0});
  append_chunk(png, "IHDR", header);
  if (!palette.empty()) append_chunk(png, "PLTE", palette);
  append_chunk(png, "IDAT", packed);
  append_chunk(png, "IEND", {});
  return png;
}

inline Bytes patterned_png(std::uint32_t height, std::uint32_t width) {
  return png_of(height, width, PngKind::rgb, patterned(height, width));
}

/// All of one colour.
inline Bytes flat_png(std::uint32_t height, std::uint32_t width,
                      std::array<std::uint8_t, 3> colour) {
  Bytes rgb;
  for (std::size_t i = 0; i < std::size_t{height} * width; ++i)
    rgb.insert(rgb.end(), colour.begin(), colour.end());
  return png_of(height, width, PngKind::rgb, rgb);
}

}  // namespace sluice
