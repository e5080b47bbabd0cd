#include "experiments/data/sets/imagenet32.h"

#include <cstring>
#include <utility>

#include "experiments/data/files/data_files.h"
#include "experiments/data/samples/validation.h"
#include "experiments/data/sets/image_files.h"
#include "experiments/data/sets/npz.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::int64_t kSide32 = 32;
constexpr std::int64_t kValues = 3 * kSide32 * kSide32;
constexpr std::int64_t kImageNetClasses = 1000;
constexpr int kTrainingFiles = 10;

/// The number of images, when both arrays are what they are said to be.
std::int64_t images_in(const std::string& path, const PackedArray& data,
                       const PackedArray& labels) {
  if (data.dtype != DType::uint8 || data.sizes.size() != 2 ||
      data.sizes[1] != kValues || data.sizes[0] < 1)
    throw UserError("{}: its array 'data' is not uint8 [N, {}]", path, kValues);
  const bool is_integer =
      labels.dtype == DType::int64 || labels.dtype == DType::int32;
  if (!is_integer || labels.sizes != std::vector{data.sizes[0]})
    throw UserError("{}: its array 'labels' is not int64 or int32 [{}]", path,
                    data.sizes[0]);
  return data.sizes[0];
}

std::int64_t class_at(const NpzArray& labels, std::size_t index) {
  if (labels.array.dtype == DType::int64) {
    std::int64_t label = 0;
    std::memcpy(&label, labels.bytes.data() + index * sizeof label,
                sizeof label);
    return label;
  }
  std::int32_t label = 0;
  std::memcpy(&label, labels.bytes.data() + index * sizeof label, sizeof label);
  return label;
}

void append_images(const std::string& path, std::vector<std::uint8_t>& pixels,
                   std::vector<std::int64_t>& labels) {
  const NpzArray classes = read_npz(path, "labels");
  const NpzArray data = read_npz(path, "data");
  const std::int64_t count = images_in(path, data.array, classes.array);
  pixels.insert(pixels.end(), data.bytes.begin(), data.bytes.end());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = class_at(classes, static_cast<std::size_t>(i));
    if (label < 1 || label > kImageNetClasses)
      throw UserError("{}: sample {} has the label {}, expected 1 to {}", path,
                      i, label, kImageNetClasses);
    labels.push_back(label - 1);
  }
}

std::shared_ptr<const ImageStore> read_all_of(
    const ImageFormat& format, const std::vector<std::string>& paths) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
  for (const std::string& path : paths) append_images(path, pixels, labels);
  return images_in_memory(format, std::move(pixels), std::move(labels));
}

StoredSplit open_npz_split(const std::string& root, const ImageFormat& format,
                           const std::vector<std::string>& names) {
  StoredSplit split;
  for (const std::string& name : names) {
    const std::string path = find_data_file(root, "imagenet32", name);
    split.size += images_in(path, read_npz_header(path, "data").array,
                            read_npz_header(path, "labels").array);
    split.files.push_back(path);
  }
  split.open = [format, paths = split.files] {
    return read_all_of(format, paths);
  };
  return split;
}

}  // namespace

MakeDataSet configure_imagenet32(Fields& fields) {
  ImageFormat format = {.channels = 3,
                        .height = kSide32,
                        .width = kSide32,
                        .classes = kImageNetClasses,
                        .mean = {0.481, 0.457, 0.408},
                        .std = {0.260, 0.253, 0.268}};
  describe_normalisation(fields, format.mean, format.std);
  const Augmentation augmentation = read_augmentation(fields);
  const ValidationOptions validation = read_validation(fields);
  return [=](const std::string& root) {
    std::vector<std::string> names;
    for (int i = 1; i <= kTrainingFiles; ++i)
      names.push_back(fmt::format("train_data_batch_{}.npz", i));
    StoredSplit train = open_npz_split(root, format, names);
    StoredSplit test = open_npz_split(root, format, {"val_data.npz"});
    return with_validation(
        stored_image_data_set(format, augmentation, std::move(train),
                              std::move(test)),
        validation);
  };
}

}  // namespace sluice
