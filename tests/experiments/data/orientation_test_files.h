#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/experiments/data/image_test_files.h"

namespace sluice {

/// An Exif block as Pillow 11.3 writes it: one entry, the orientation.
inline Bytes big_endian_exif(int orientation) {
  return {'M',
          'M',
          0,
          42,
          0,
          0,
          0,
          8,
          0,
          1,
          1,
          0x12,
          0,
          3,
          0,
          0,
          0,
          1,
          static_cast<std::uint8_t>(orientation >> 8),
          static_cast<std::uint8_t>(orientation),
          0,
          0,
          0,
          0,
          0,
          0};
}

inline Bytes little_endian_exif(int orientation) {
  return {'I',
          'I',
          42,
          0,
          8,
          0,
          0,
          0,
          1,
          0,
          0x12,
          1,
          3,
          0,
          1,
          0,
          0,
          0,
          static_cast<std::uint8_t>(orientation),
          0,
          0,
          0,
          0,
          0,
          0,
          0};
}

/// The PNG with another chunk before its end.
inline Bytes with_chunk(Bytes png, std::string_view type, const Bytes& data) {
  constexpr std::ptrdiff_t kEndChunk = 12;
  Bytes chunk;
  append_chunk(chunk, type, data);
  png.insert(png.end() - kEndChunk, chunk.begin(), chunk.end());
  return png;
}

inline Bytes with_orientation(const Bytes& png, int orientation) {
  return with_chunk(png, "eXIf", big_endian_exif(orientation));
}

inline Bytes with_xmp(const Bytes& png, const std::string& xml) {
  const std::string text = std::string("XML:com.adobe.xmp\0\0\0\0\0", 22) + xml;
  return with_chunk(png, "iTXt", {text.begin(), text.end()});
}

/// APP1 of a JPEG.
inline Bytes exif_segment(int orientation) {
  const Bytes block = big_endian_exif(orientation);
  const std::size_t length = 2 + 6 + block.size();
  Bytes segment = {0xff,
                   0xe1,
                   static_cast<std::uint8_t>(length >> 8),
                   static_cast<std::uint8_t>(length),
                   'E',
                   'x',
                   'i',
                   'f',
                   0,
                   0};
  segment.insert(segment.end(), block.begin(), block.end());
  return segment;
}

/// The beginning of a JPEG with this segment; no picture follows.
inline Bytes jpeg_with(const Bytes& segment) {
  Bytes jpeg = {0xff, 0xd8};
  jpeg.insert(jpeg.end(), segment.begin(), segment.end());
  jpeg.insert(jpeg.end(), {0xff, 0xd9});
  return jpeg;
}

}  // namespace sluice
