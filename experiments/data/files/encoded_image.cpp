#include "experiments/data/files/encoded_image.h"

#include <cstddef>

#include <png.h>

#include "lib/base/error.h"

namespace sluice {

std::vector<std::uint8_t> encode_png(std::uint32_t height, std::uint32_t width,
                                     std::span<const std::uint8_t> rgba) {
  SLUICE_CHECK(
      height > 0 && width > 0 && rgba.size() == std::size_t{4} * height * width,
      "{} bytes aren't {} x {} pixels", rgba.size(), height, width);
  // libpng's own interface for whole images, which frees what it holds itself.
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.height = height;
  image.width = width;
  image.format = PNG_FORMAT_RGBA;
  png_alloc_size_t size = 0;
  const auto write_to = [&](void* memory) {
    const int is_written = png_image_write_to_memory(
        &image, memory, &size, /*convert_to_8_bit=*/0, rgba.data(),
        /*row_stride=*/0, /*colormap=*/nullptr);
    SLUICE_CHECK(is_written != 0, "libpng makes no PNG: {}",
                 static_cast<const char*>(image.message));
  };
  write_to(nullptr);  // says the size alone
  std::vector<std::uint8_t> png(size);
  write_to(png.data());
  png.resize(size);
  return png;
}

}  // namespace sluice
