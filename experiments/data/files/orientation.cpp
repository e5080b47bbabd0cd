#include "experiments/data/files/orientation.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr int kUpright = 1;
constexpr int kMostOrientation = 8;
constexpr std::string_view kExif("Exif\0\0", 6);
constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
constexpr std::string_view kXmpOfPng("XML:com.adobe.xmp\0", 18);

std::string_view text_in(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Reads an Exif block, which is a TIFF file without pictures, and never beyond
/// its end.
class ExifBlock {
 public:
  explicit ExifBlock(Bytes bytes) : bytes_(bytes) {}

  std::optional<int> orientation() {
    const std::string_view text = text_in(bytes_);
    if (!text.starts_with("II") && !text.starts_with("MM")) return std::nullopt;
    is_big_ = text[0] == 'M';
    if (number(2, 2) != 42) return std::nullopt;
    const auto directory = number(4, 4);
    const auto entries = directory ? number(*directory, 2) : std::nullopt;
    if (!entries) return std::nullopt;
    for (std::uint64_t i = 0; i < *entries; ++i) {
      constexpr std::uint64_t kEntryBytes = 12;
      const std::uint64_t entry = *directory + 2 + i * kEntryBytes;
      constexpr std::uint64_t kOrientationTag = 0x0112;
      if (number(entry, 2) == kOrientationTag) return value_of(entry);
    }
    return std::nullopt;
  }

 private:
  /// A single byte, short or long that lies in the entry itself.
  std::optional<int> value_of(std::uint64_t entry) const {
    const auto type = number(entry + 2, 2);
    if (number(entry + 4, 4) != 1) return std::nullopt;
    const std::size_t bytes = type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : 0;
    if (bytes == 0) return std::nullopt;
    const auto value = number(entry + 8, bytes);
    if (!value || *value < 1 || *value > kMostOrientation) return kUpright;
    return static_cast<int>(*value);
  }

  std::optional<std::uint64_t> number(std::uint64_t at,
                                      std::size_t count) const {
    if (at > bytes_.size() || bytes_.size() - at < count) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = is_big_ ? i : count - 1 - i;
      value = value << 8 | bytes_[static_cast<std::size_t>(at) + place];
    }
    return value;
  }

  Bytes bytes_;
  bool is_big_ = false;
};

/// The orientation in XMP: <tiff:Orientation>6</tiff:Orientation>, or
/// tiff:Orientation="6".
std::optional<int> orientation_in_xmp(std::string_view text) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (std::size_t at = text.find(kName); at != text.npos;
       at = text.find(kName, at + 1)) {
    std::string_view rest = text.substr(at + kName.size());
    if (rest.starts_with(">"))
      rest.remove_prefix(1);
    else if (rest.starts_with("=\""))
      rest.remove_prefix(2);
    else
      continue;
    if (rest.empty() || rest[0] < '0' || rest[0] > '9') continue;
    const int value = rest[0] - '0';
    return value < 1 || value > kMostOrientation ? kUpright : value;
  }
  return std::nullopt;
}

/// The first answer of each kind; Exif goes before XMP.
struct StatedOrientation {
  std::optional<int> exif = {};
  std::optional<int> xmp = {};

  int orientation() const { return exif.value_or(xmp.value_or(kUpright)); }
};

std::size_t big_endian(Bytes bytes, std::size_t at, std::size_t count) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | bytes[at + i];
  return value;
}

void look_at_jpeg_segment(Bytes segment, StatedOrientation& stated) {
  const std::string_view text = text_in(segment);
  if (text.starts_with(kExif) && !stated.exif)
    stated.exif = ExifBlock(segment.subspan(kExif.size())).orientation();
  if (text.starts_with(kXmp) && !stated.xmp)
    stated.xmp = orientation_in_xmp(text.substr(kXmp.size()));
}

/// Goes through the segments that stand before the picture.
int orientation_of_jpeg(Bytes bytes) {
  constexpr std::uint8_t kApp1 = 0xe1;
  constexpr std::uint8_t kStartOfScan = 0xda;
  constexpr std::uint8_t kEnd = 0xd9;
  StatedOrientation stated;
  std::size_t at = 2;
  while (at + 4 <= bytes.size() && bytes[at] == 0xff) {
    const std::uint8_t marker = bytes[at + 1];
    if (marker == 0xff) {  // a byte that fills up
      ++at;
      continue;
    }
    if (marker == kStartOfScan || marker == kEnd) break;
    const std::size_t length = big_endian(bytes, at + 2, 2);
    if (length < 2 || length > bytes.size() - at - 2) break;
    if (marker == kApp1)
      look_at_jpeg_segment(bytes.subspan(at + 4, length - 2), stated);
    at += 2 + length;
  }
  return stated.orientation();
}

/// A text chunk: keyword, two flags for compression, two texts that may be
/// empty, each with a zero behind, and the text itself.
std::optional<int> orientation_in_text_chunk(std::string_view chunk) {
  if (!chunk.starts_with(kXmpOfPng)) return std::nullopt;
  chunk.remove_prefix(kXmpOfPng.size());
  if (chunk.empty() || chunk[0] != 0) return std::nullopt;  // compressed
  return orientation_in_xmp(chunk);
}

int orientation_of_png(Bytes bytes) {
  constexpr std::size_t kMagic = 8;
  constexpr std::size_t kAround = 12;  // length, type and checksum
  StatedOrientation stated;
  std::size_t at = kMagic;
  while (bytes.size() - at >= kAround) {
    const std::size_t length = big_endian(bytes, at, 4);
    if (length > bytes.size() - at - kAround) break;
    const std::string_view type = text_in(bytes.subspan(at + 4, 4));
    const Bytes chunk = bytes.subspan(at + 8, length);
    if (type == "eXIf" && !stated.exif)
      stated.exif = ExifBlock(chunk).orientation();
    if (type == "iTXt" && !stated.xmp)
      stated.xmp = orientation_in_text_chunk(text_in(chunk));
    at += kAround + length;
  }
  return stated.orientation();
}

/// Effect of an orientation: rows and columns are exchanged, then mirrored.
struct Turn {
  bool exchanged = false;
  bool rows_mirrored = false;
  bool columns_mirrored = false;
};

constexpr std::array<Turn, kMostOrientation + 1> kTurns = {{
    {},
    {},
    {.columns_mirrored = true},
    {.rows_mirrored = true, .columns_mirrored = true},
    {.rows_mirrored = true},
    {.exchanged = true},
    {.exchanged = true, .rows_mirrored = true},
    {.exchanged = true, .rows_mirrored = true, .columns_mirrored = true},
    {.exchanged = true, .columns_mirrored = true},
}};

}  // namespace

int orientation_of(Bytes bytes) {
  constexpr std::size_t kLeast = 8;
  if (bytes.size() < kLeast) return kUpright;
  if (bytes[0] == 0xff && bytes[1] == 0xd8) return orientation_of_jpeg(bytes);
  if (text_in(bytes).starts_with("\x89PNG")) return orientation_of_png(bytes);
  return kUpright;
}

DecodedImage upright(DecodedImage image, int orientation) {
  if (orientation <= kUpright || orientation > kMostOrientation) return image;
  const Turn turn = kTurns.at(static_cast<std::size_t>(orientation));
  DecodedImage turned = {.height = image.height,
                         .width = image.width,
                         .rgb = std::vector<std::uint8_t>(image.rgb.size())};
  if (turn.exchanged) std::swap(turned.height, turned.width);
  std::uint8_t* to = turned.rgb.data();
  for (std::int64_t y = 0; y < turned.height; ++y)
    for (std::int64_t x = 0; x < turned.width; ++x, to += 3) {
      std::int64_t row = turn.exchanged ? x : y;
      std::int64_t column = turn.exchanged ? y : x;
      if (turn.rows_mirrored) row = image.height - 1 - row;
      if (turn.columns_mirrored) column = image.width - 1 - column;
      std::copy_n(image.rgb.data() + 3 * (row * image.width + column), 3, to);
    }
  return turned;
}

}  // namespace sluice
