#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/data/augmentation.h"
#include "experiments/data/data_set.h"
#include "experiments/data/files/image_bytes.h"

namespace sluice {

struct ImageFormat {
  std::int64_t channels = 1;
  std::int64_t height = 28;
  std::int64_t width = 28;
  std::int64_t classes = 10;
  /// Per channel, of pixels scaled to 0..1; what inputs are normalised with.
  std::vector<double> mean = {};
  std::vector<double> std = {};

  /// Bytes of one image.
  std::int64_t bytes() const { return channels * height * width; }
};

struct ImageSplit {
  std::int64_t size = 0;
  /// Reads and checks them; throws UserError.
  std::function<Images()> load = {};
  std::vector<std::string> files = {};  ///< that it reads
};

/// Inputs are float32 [N, C, H, W], (x / 255 - mean) / std per channel; labels
/// are int64 [N]. The training images are augmented, the test images are not.
DataSet image_data_set(const ImageFormat& format,
                       const Augmentation& augmentation, ImageSplit train,
                       ImageSplit test);

/// The same samples, of images that are there.
std::shared_ptr<const Samples> image_samples(const ImageFormat& format,
                                             const Augmentation& augmentation,
                                             Images images);

}  // namespace sluice
