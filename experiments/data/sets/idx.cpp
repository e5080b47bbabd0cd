#include "experiments/data/sets/idx.h"

#include <utility>

#include "experiments/data/files/data_files.h"
#include "experiments/data/files/idx_file.h"
#include "experiments/data/files/labels.h"
#include "experiments/data/samples/validation.h"
#include "experiments/data/sets/images.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::int64_t kSideOfImage = 28;
constexpr std::int64_t kClasses = 10;

/// The files of one split.
struct SplitFiles {
  std::string images;
  std::string labels;
};

/// The number of images, when the sizes of both files agree.
std::int64_t agreed_size(const SplitFiles& files,
                         const std::vector<std::int64_t>& images,
                         const std::vector<std::int64_t>& labels) {
  if (images[1] != kSideOfImage || images[2] != kSideOfImage) {
    throw UserError("{}: has images of {}x{}, expected {}x{}", files.images,
                    images[1], images[2], kSideOfImage, kSideOfImage);
  }
  if (images[0] == 0) throw UserError("{}: has no image", files.images);
  if (images[0] != labels[0]) {
    throw UserError("{}: has {} images, but {} has {} labels", files.images,
                    images[0], files.labels, labels[0]);
  }
  return images[0];
}

Images load(const SplitFiles& files) {
  IdxFile images = read_idx(files.images, 3);
  IdxFile labels = read_idx(files.labels, 1);
  agreed_size(files, images.sizes, labels.sizes);
  check_labels(files.labels, labels.values, kClasses);
  return {std::move(images.values), std::move(labels.values)};
}

ImageSplit open_split(const std::string& root, const std::string& folder,
                      const std::string& split) {
  const SplitFiles files = {
      find_data_file(root, folder, split + "-images-idx3-ubyte"),
      find_data_file(root, folder, split + "-labels-idx1-ubyte")};
  return {.size = agreed_size(files, read_idx_sizes(files.images, 3),
                              read_idx_sizes(files.labels, 1)),
          .load = [files] { return load(files); },
          .files = {files.images, files.labels}};
}

MakeDataSet mnist_like(Fields& options, const std::string& folder, double mean,
                       double std) {
  const Augmentation augmentation = read_augmentation(options);
  const ValidationOptions validation = read_validation(options);
  const ImageFormat format = {.height = kSideOfImage,
                              .width = kSideOfImage,
                              .mean = {mean},
                              .std = {std}};
  return [=](const std::string& root) {
    ImageSplit train = open_split(root, folder, "train");
    ImageSplit test = open_split(root, folder, "t10k");
    return with_validation(
        image_data_set(format, augmentation, std::move(train), std::move(test)),
        validation);
  };
}

}  // namespace

// The means and standard deviations are those of the training images.
MakeDataSet configure_mnist(Fields& options) {
  return mnist_like(options, "mnist", 0.1307, 0.3081);
}

MakeDataSet configure_fashion_mnist(Fields& options) {
  return mnist_like(options, "fashion-mnist", 0.2860, 0.3530);
}

MakeDataSet configure_kmnist(Fields& options) {
  return mnist_like(options, "kmnist", 0.1918, 0.3483);
}

}  // namespace sluice
