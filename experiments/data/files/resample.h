#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// A part of an image, in pixels.
struct ImageBox {
  std::int64_t top = 0;
  std::int64_t left = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;

  bool operator==(const ImageBox&) const = default;
};

/// View of one channel of an image: pixel (y, x) is first[y * row_stride + x *
/// pixel_stride].
struct PlaneView {
  const std::uint8_t* first = nullptr;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t row_stride = 0;
  std::int64_t pixel_stride = 1;

  PlaneView part(const ImageBox& box) const {
    return {.first = first + box.top * row_stride + box.left * pixel_stride,
            .height = box.height,
            .width = box.width,
            .row_stride = row_stride,
            .pixel_stride = pixel_stride};
  }
};

/// Resizes the plane to height x width and writes `window` of the result to
/// `to`, row by row: a triangle filter as wide as the pixels of the smaller
/// image, first along rows, then along columns, in whole numbers. The bytes are
/// those of resize(BILINEAR) of Pillow 11, which torchvision's transforms of
/// images call. (Pillow 13 begins with the columns where that is less work, and
/// may differ by 1.) A dimension whose size stays is left alone.
void resample(const PlaneView& plane, std::int64_t height, std::int64_t width,
              const ImageBox& window, std::uint8_t* to);

}  // namespace sluice
