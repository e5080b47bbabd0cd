#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/data/sets/image_listing.h"
#include "experiments/data/sets/image_place.h"
#include "experiments/data/sets/images.h"
#include "lib/base/config.h"

namespace sluice {

/// PNG and JPEG files of any size as samples of one size, in colour, decoded
/// each time that a batch asks for them: a set may be larger than the memory.
struct ImageFilesOptions {
  /// Height and width of a sample.
  std::int64_t size = 224;
  /// The shorter side of an image before the middle is cut out of it; 0: as
  /// `size`.
  std::int64_t resize = 0;
  /// Per channel, of values in 0..1: by default those of ImageNet.
  std::vector<double> mean = {0.485, 0.456, 0.406};
  std::vector<double> std = {0.229, 0.224, 0.225};

  /// Whether pictures are turned as their orientation tags say.
  bool exif_orientation = true;
  /// Whether images that can't be decoded are left out.
  bool leaves_out_damaged = false;
  /// Threads that decode the images of a batch.
  std::int64_t workers = 1;

  /// Reads the keys size and resize.
  void describe_size(Fields& fields);
  /// Reads the keys exif_orientation, on_bad and workers.
  void describe_reading(Fields& fields);
};

/// The keys mean and std, of images in colour.
void describe_normalisation(Fields& fields, std::vector<double>& mean,
                            std::vector<double>& std);

struct ImageFile {
  ImagePlace place = {};
  std::int64_t label = 0;
};

struct ImageFiles {
  std::vector<std::string> classes = {};  ///< names, by label
  std::vector<ImageFile> train = {};
  std::vector<ImageFile> test = {};
  std::vector<ImageFile> validation = {};  ///< may be empty
  /// Whether training images are evaluated too (data.validation).
  bool train_is_evaluated = false;
  SkippedFiles left_out = {};  ///< what lies beside them
};

/// Training images are augmented; with a resized_crop that takes the place of
/// `resize` and the middle. Bytes are those that torchvision's Resize,
/// CenterCrop and RandomResizedCrop, of the same box, give for images of Pillow
/// 11, turned by Pillow's exif_transpose() before. Throws UserError when a file
/// isn't there. Images that are evaluated are all decoded when their split is
/// opened, and those of a training split of 50,000 or fewer: one that is
/// damaged throws there, with its name, or is left out of the set from the
/// start.
DataSet image_files_data_set(const ImageFilesOptions& options,
                             const Augmentation& augmentation,
                             ImageFiles files);

}  // namespace sluice
