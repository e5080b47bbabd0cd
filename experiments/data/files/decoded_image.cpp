#include "experiments/data/files/decoded_image.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include <png.h>
#include <turbojpeg.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::array<std::uint8_t, 8> kPngMagic = {0x89, 'P',  'N',  'G',
                                                   0x0d, 0x0a, 0x1a, 0x0a};
constexpr std::array<std::uint8_t, 3> kJpegMagic = {0xff, 0xd8, 0xff};

template <std::size_t Size>
bool begins_with(std::span<const std::uint8_t> bytes,
                 const std::array<std::uint8_t, Size>& magic) {
  return bytes.size() >= Size &&
         std::equal(magic.begin(), magic.end(), bytes.begin());
}

/// The number of pixels; throws unless it is one that we take.
std::size_t checked_pixels(const std::string& path, std::uint64_t width,
                           std::uint64_t height, std::uint64_t most_pixels) {
  if (width == 0 || height == 0) throw UserError("{}: has no pixel", path);
  if (height > most_pixels / width)
    throw UserError("{}: says that it has {} x {} pixels; {} are the most",
                    path, width, height, most_pixels);
  return static_cast<std::size_t>(width * height);
}

/// A text of a library of C's, which may end in a line break.
std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(),
      [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

[[noreturn]] void fail_decoding(const std::string& path, const char* kind,
                                std::string_view reason) {
  throw UserError("{}: is a damaged {} file: {}", path, kind, one_line(reason));
}

std::uint8_t on_white(std::uint8_t colour, std::uint8_t alpha) {
  constexpr unsigned kWhite = 255;
  return static_cast<std::uint8_t>(
      (colour * alpha + kWhite * (kWhite - alpha) + kWhite / 2) / kWhite);
}

/// libpng's own interface for whole images: no error leaves it by longjmp.
struct PngReader {
  png_image image = {};

  PngReader() { image.version = PNG_IMAGE_VERSION; }
  ~PngReader() { png_image_free(&image); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

DecodedImage decode_png(std::span<const std::uint8_t> bytes,
                        const std::string& path, std::uint64_t most_pixels) {
  PngReader reader;
  png_image& image = reader.image;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0)
    fail_decoding(path, "PNG", image.message);
  const std::size_t pixels =
      checked_pixels(path, image.width, image.height, most_pixels);
  image.format = PNG_FORMAT_RGBA;
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  std::vector<std::uint8_t> rgba(4 * pixels);
  if (png_image_finish_read(&image, /*background=*/nullptr, rgba.data(),
                            /*row_stride=*/0, /*colormap=*/nullptr) == 0)
    fail_decoding(path, "PNG", image.message);
  DecodedImage decoded = {.height = static_cast<std::int64_t>(image.height),
                          .width = static_cast<std::int64_t>(image.width),
                          .rgb = std::vector<std::uint8_t>(3 * pixels)};
  for (std::size_t i = 0; i < pixels; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      decoded.rgb[3 * i + c] = on_white(rgba[4 * i + c], rgba[4 * i + 3]);
  return decoded;
}

struct CloseJpeg {
  void operator()(void* decoder) const { tjDestroy(decoder); }
};
using JpegDecoder = std::unique_ptr<void, CloseJpeg>;

/// Bytes that stand between two parts of a file and mean nothing: so many
/// cameras' files have them that they are no damage. Of any other warning, a
/// file that is cut off for instance, the rest of the picture would be grey.
bool is_harmless(void* decoder) {
  const std::string_view text = tjGetErrorStr2(decoder);
  return tjGetErrorCode(decoder) == TJERR_WARNING &&
         text.find("extraneous bytes") != std::string_view::npos;
}

/// Decodes a JPEG, with `channels` bytes a pixel.
std::vector<std::uint8_t> decoded_jpeg(void* decoder,
                                       std::span<const std::uint8_t> bytes,
                                       const std::string& path, int width,
                                       int height, bool is_cmyk) {
  const std::size_t channels = is_cmyk ? 4 : 3;
  std::vector<std::uint8_t> values(channels * static_cast<std::size_t>(width) *
                                   static_cast<std::size_t>(height));
  // Limits scans: an image of a hundred thousand empty ones would take hours.
  constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS;
  const int code = tjDecompress2(decoder, bytes.data(),
                                 static_cast<unsigned long>(bytes.size()),
                                 values.data(), width, /*pitch=*/0, height,
                                 is_cmyk ? TJPF_CMYK : TJPF_RGB, kFlags);
  if (code != 0 && !is_harmless(decoder))
    fail_decoding(path, "JPEG", tjGetErrorStr2(decoder));
  return values;
}

/// The colours of a printer, inverted, as Photoshop writes them.
std::vector<std::uint8_t> rgb_of_cmyk(const std::vector<std::uint8_t>& cmyk) {
  std::vector<std::uint8_t> rgb;
  rgb.reserve(cmyk.size() / 4 * 3);
  for (std::size_t i = 0; i + 3 < cmyk.size(); i += 4)
    for (std::size_t c = 0; c < 3; ++c)
      rgb.push_back(
          static_cast<std::uint8_t>((cmyk[i + c] * cmyk[i + 3] + 127) / 255));
  return rgb;
}

DecodedImage decode_jpeg(std::span<const std::uint8_t> bytes,
                         const std::string& path, std::uint64_t most_pixels) {
  const JpegDecoder decoder(tjInitDecompress());
  SLUICE_CHECK(decoder != nullptr, "libturbojpeg makes no decoder");
  int width = 0;
  int height = 0;
  int subsampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(decoder.get(), bytes.data(),
                          static_cast<unsigned long>(bytes.size()), &width,
                          &height, &subsampling, &colours) != 0 &&
      !is_harmless(decoder.get()))
    fail_decoding(path, "JPEG", tjGetErrorStr2(decoder.get()));
  // libturbojpeg gives no size, and no error, for a file that ends too early.
  if (width < 1 || height < 1) fail_decoding(path, "JPEG", "no image is in it");
  checked_pixels(path, static_cast<std::uint64_t>(width),
                 static_cast<std::uint64_t>(height), most_pixels);
  const bool is_cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  std::vector<std::uint8_t> values =
      decoded_jpeg(decoder.get(), bytes, path, width, height, is_cmyk);
  return {.height = height,
          .width = width,
          .rgb = is_cmyk ? rgb_of_cmyk(values) : std::move(values)};
}

/// Files that are taken for images, by how they begin.
struct OtherFormat {
  std::string_view magic;
  std::size_t at;
  const char* what;
};

constexpr std::array kOtherFormats = {
    OtherFormat{"WEBP", 8, "a WebP file; convert it to PNG or JPEG"},
    OtherFormat{"GIF8", 0, "a GIF file; convert it to PNG"},
    OtherFormat{"BM", 0, "a BMP file; convert it to PNG"},
    OtherFormat{{"II*\0", 4}, 0, "a TIFF file; convert it to PNG"},
    OtherFormat{{"MM\0*", 4}, 0, "a TIFF file; convert it to PNG"},
    OtherFormat{"ftyp", 4, "a HEIC, AVIF or film file; convert it to JPEG"},
    OtherFormat{{"\0\5\26\7", 4},
                0,
                "the resource fork of a file, not a picture; remove it"},
    OtherFormat{"<", 0, "a page or drawing of the web, not a picture"},
    OtherFormat{"version https://git-lfs", 0,
                "a pointer of Git LFS; git lfs pull brings the file"},
};

[[noreturn]] void refuse_other_kind(std::span<const std::uint8_t> bytes,
                                    const std::string& path) {
  if (bytes.empty())
    throw UserError("{}: is neither a PNG nor a JPEG file: it is empty", path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  for (const OtherFormat& kind : kOtherFormats)
    if (text.size() > kind.at && text.substr(kind.at).starts_with(kind.magic))
      throw UserError("{}: is neither a PNG nor a JPEG file, but {}", path,
                      kind.what);
  throw UserError("{}: is neither a PNG nor a JPEG file", path);
}

}  // namespace

DecodedImage decode_image(std::span<const std::uint8_t> bytes,
                          const std::string& path, std::uint64_t most_pixels) {
  if (begins_with(bytes, kPngMagic))
    return decode_png(bytes, path, most_pixels);
  if (begins_with(bytes, kJpegMagic))
    return decode_jpeg(bytes, path, most_pixels);
  refuse_other_kind(bytes, path);
}

}  // namespace sluice
