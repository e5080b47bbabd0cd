#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/data/change/augmentation.h"
#include "experiments/data/files/image_bytes.h"
#include "experiments/data/samples/data_set.h"
#include "experiments/data/sets/image_store.h"

namespace sluice {

struct StoredSplit {
  std::int64_t size = 0;
  /// Throws UserError.
  std::function<std::shared_ptr<const ImageStore>()> open = {};
  std::vector<std::string> files = {};  ///< that it reads as a whole
};

/// A data set as image_data_set() makes one, of images that may stay on the
/// disk.
DataSet stored_image_data_set(const ImageFormat& format,
                              const Augmentation& augmentation,
                              StoredSplit train, StoredSplit test);
Split stored_image_split(const ImageFormat& format,
                         const Augmentation& augmentation, StoredSplit split);

struct ImageSplit {
  std::int64_t size = 0;
  /// Reads and checks the images; throws UserError.
  std::function<Images()> load = {};
  std::vector<std::string> files = {};  ///< that it reads
};

/// Inputs are float32 [N, C, H, W], (x / 255 - mean) / std per channel; labels
/// are int64 [N]. The training images are augmented, the test images are not.
DataSet image_data_set(const ImageFormat& format,
                       const Augmentation& augmentation, ImageSplit train,
                       ImageSplit test);

/// Samples of images that are in memory.
std::shared_ptr<const Samples> image_samples(const ImageFormat& format,
                                             const Augmentation& augmentation,
                                             Images images);

}  // namespace sluice
