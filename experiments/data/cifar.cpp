#include "experiments/data/cifar.h"

#include <utility>

#include "experiments/data/data_files.h"
#include "experiments/data/images.h"
#include "experiments/data/labels.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::int64_t kSide = 32;
constexpr std::size_t kImageBytes = std::size_t{3} * kSide * kSide;

std::size_t record_bytes(const CifarFormat& format) {
  return format.label_bytes + kImageBytes;
}

/// The records of a file of so many bytes.
std::uint64_t records_in(const std::string& path, std::uint64_t bytes,
                         const CifarFormat& format) {
  const std::size_t record = record_bytes(format);
  if (bytes == 0 || bytes % record != 0) {
    throw UserError("{}: has {} bytes, expected a multiple of {} (one record)",
                    path, bytes, record);
  }
  return bytes / record;
}

void append_file(const std::string& path, const CifarFormat& format,
                 Images& images) {
  const std::vector<std::uint8_t> bytes = read_data_file(path);
  const std::size_t record = record_bytes(format);
  std::vector<std::uint8_t> labels(records_in(path, bytes.size(), format));
  const std::uint8_t* at = bytes.data();
  for (std::uint8_t& label : labels) {
    label = at[format.label_at];
    const std::uint8_t* image = at + format.label_bytes;
    images.pixels.insert(images.pixels.end(), image, image + kImageBytes);
    at += record;
  }
  check_labels(path, labels, format.classes);
  images.labels.insert(images.labels.end(), labels.begin(), labels.end());
}

ImageSplit open_split(const std::string& root, const std::string& folder,
                      const std::vector<std::string>& names,
                      const CifarFormat& format) {
  std::vector<std::string> paths;
  std::uint64_t size = 0;
  for (const std::string& name : names) {
    paths.push_back(find_data_file(root, folder, name));
    size += records_in(paths.back(), data_file_size(paths.back()), format);
  }
  return {.size = static_cast<std::int64_t>(size),
          .load = [paths, format] { return read_cifar(paths, format); }};
}

ImageFormat image_format(const CifarFormat& format, std::vector<double> mean,
                         std::vector<double> std) {
  return {.channels = 3,
          .height = kSide,
          .width = kSide,
          .classes = format.classes,
          .mean = std::move(mean),
          .std = std::move(std)};
}

}  // namespace

Images read_cifar(const std::vector<std::string>& paths,
                  const CifarFormat& format) {
  Images images;
  for (const std::string& path : paths) append_file(path, format, images);
  return images;
}

// The means and standard deviations are those of the training images.
MakeDataSet configure_cifar10(Fields& options) {
  const Augmentation augmentation = read_augmentation(options);
  return [augmentation](const std::string& root) {
    const std::string folder = "cifar-10-batches-bin";
    const CifarFormat format = {.label_bytes = 1, .label_at = 0, .classes = 10};
    ImageSplit train =
        open_split(root, folder,
                   {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                    "data_batch_4.bin", "data_batch_5.bin"},
                   format);
    ImageSplit test = open_split(root, folder, {"test_batch.bin"}, format);
    return image_data_set(image_format(format, {0.4914, 0.4822, 0.4465},
                                       {0.2470, 0.2435, 0.2616}),
                          augmentation, std::move(train), std::move(test));
  };
}

MakeDataSet configure_cifar100(Fields& options) {
  std::string labels = "fine";
  options.key("labels", labels,
              {.text = "100 fine classes, or 20 coarse ones",
               .allowed = {"fine", "coarse"}});
  const Augmentation augmentation = read_augmentation(options);
  const bool fine = labels == "fine";
  const CifarFormat format = {.label_bytes = 2,
                              .label_at = fine ? std::size_t{1} : 0,
                              .classes = fine ? 100 : 20};
  return [augmentation, format](const std::string& root) {
    const std::string folder = "cifar-100-binary";
    ImageSplit train = open_split(root, folder, {"train.bin"}, format);
    ImageSplit test = open_split(root, folder, {"test.bin"}, format);
    return image_data_set(image_format(format, {0.5071, 0.4865, 0.4409},
                                       {0.2673, 0.2564, 0.2762}),
                          augmentation, std::move(train), std::move(test));
  };
}

}  // namespace sluice
