#pragma once

#include <cstdint>

#include "experiments/data/files/resample.h"
#include "experiments/data/samples/samples.h"
#include "lib/base/config.h"

namespace sluice {

/// How training images are changed at random. Each kind has random numbers of
/// its own, keyed by (seed, epoch, index of the sample) and nothing else: so
/// neither the cut, the engine nor another kind changes them.
struct Augmentation {
  /// Above 0: a part of the image is resized to its size, as torchvision's
  /// RandomResizedCrop does (Szegedy et al., arXiv:1409.4842): its area is a
  /// share of the image's between this number and 1, and its width over its
  /// height is between 3/4 and 4/3.
  double resized_crop = 0;
  /// The image moves by up to so many pixels in each direction; black comes in.
  std::int64_t crop = 0;
  /// Half of the images are mirrored, left and right.
  bool flip = false;
  /// Brightness, contrast and, of colour images, saturation are multiplied by
  /// numbers between 1 - jitter and 1 + jitter.
  double jitter = 0;
  /// The side of a square that is set to the mean, around a pixel anywhere in
  /// the image (DeVries and Taylor, arXiv:1708.04552).
  std::int64_t cutout = 0;

  /// Whether the augmentation changes anything.
  bool changes() const { return crop > 0 || flip || jitter > 0 || cutout > 0; }
  void describe(Fields& fields);
};

/// Reads the table `augment` of a data set's options.
Augmentation read_augmentation(Fields& options);

/// Random change of an image in an epoch. Pixel (y, x) of the result is pixel
/// (y + down, x + right) of the image, or of its mirror image.
struct ImageChange {
  std::int64_t down = 0;
  std::int64_t right = 0;
  bool mirrored = false;
  /// Factors, applied in this order to values in 0..1 and clamped to them
  /// after each. Contrast is relative to the mean grey of the image, saturation
  /// to the grey of the pixel.
  float brightness = 1;
  float contrast = 1;
  float saturation = 1;
  /// The hole is [top, bottom) x [left, right), inside of the image.
  std::int64_t hole_top = 0;
  std::int64_t hole_bottom = 0;
  std::int64_t hole_left = 0;
  std::int64_t hole_right = 0;
};

/// The part of a height x width image that is resized to the size of samples:
/// ten draws at most; when none fits into the image, the largest part around
/// its centre whose sides have an allowed ratio.
ImageBox draw_resized_crop(const Augmentation& augmentation, EpochKey key,
                           std::int64_t index, std::int64_t height,
                           std::int64_t width);

/// Draws the change of sample `index`, an image of height x width pixels.
ImageChange draw_change(const Augmentation& augmentation, EpochKey key,
                        std::int64_t index, std::int64_t height,
                        std::int64_t width);

}  // namespace sluice
