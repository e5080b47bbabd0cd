#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "experiments/data/files/resample.h"

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

/// Where the pixels of a split come from. Any number of threads may use it.
class ImageStore {
 public:
  /// Chooses the part of a height x width image that is resized to the size of
  /// samples.
  using Crop = std::function<ImageBox(std::int64_t height, std::int64_t width)>;

  virtual ~ImageStore() = default;
  virtual std::int64_t size() const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// The bytes of a sample, channel by channel and row by row; they lie in the
  /// store or in `scratch`. Without a crop (empty): as evaluations see it.
  /// Throws UserError for a file that can't be read.
  virtual const std::uint8_t* pixels(
      std::int64_t index, const Crop& crop,
      std::vector<std::uint8_t>& scratch) const = 0;
  /// Threads that read the images of a batch.
  virtual int workers() const { return 1; }
  /// The bytes of all samples, one after the other; nullptr: they don't lie so.
  virtual const std::uint8_t* all_pixels() const { return nullptr; }
};

/// Images in memory, one after the other as in Images. There are as many bytes
/// as the labels need.
std::shared_ptr<const ImageStore> images_in_memory(
    const ImageFormat& format, std::vector<std::uint8_t> pixels,
    std::vector<std::int64_t> labels);

}  // namespace sluice
