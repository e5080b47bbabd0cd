#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/data/images.h"
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

  /// The keys size and resize.
  void describe_size(Fields& fields);
};

/// The keys mean and std, of images in colour.
void describe_normalisation(Fields& fields, std::vector<double>& mean,
                            std::vector<double>& std);

struct ImageFile {
  std::string path = {};
  std::int64_t label = 0;
};

struct ImageFiles {
  std::vector<std::string> classes = {};  ///< names, by label
  std::vector<ImageFile> train = {};
  std::vector<ImageFile> test = {};
  std::vector<ImageFile> validation = {};  ///< may be empty
};

/// The names of the folders in `folder`, sorted by their bytes. Throws
/// UserError when it can't be read.
std::vector<std::string> folders_in(const std::string& folder);

/// The PNG and JPEG files (.png, .jpg, .jpeg, in any case) in `folder` and the
/// folders below it, sorted by their paths' bytes; links to folders are not
/// followed. Throws UserError when it can't be read or has none.
std::vector<std::string> image_files_in(const std::string& folder);

/// Training images are augmented; with a resized_crop that takes the place of
/// `resize` and the middle. Bytes are those that torchvision's Resize,
/// CenterCrop and RandomResizedCrop, of the same box, give for images of Pillow
/// 11. Throws UserError when a file isn't there; what it holds is seen when it
/// is decoded.
DataSet image_files_data_set(const ImageFilesOptions& options,
                             const Augmentation& augmentation,
                             ImageFiles files);

}  // namespace sluice
