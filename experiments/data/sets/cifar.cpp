#include "experiments/data/sets/cifar.h"

#include <utility>

#include "experiments/data/files/cifar_file.h"
#include "experiments/data/files/data_files.h"
#include "experiments/data/samples/validation.h"
#include "experiments/data/sets/images.h"

namespace sluice {
namespace {

constexpr std::int64_t kImageSide = 32;

ImageSplit open_split(const std::string& root, const std::string& folder,
                      const std::vector<std::string>& names,
                      const CifarFormat& format) {
  std::vector<std::string> paths;
  std::uint64_t size = 0;
  for (const std::string& name : names) {
    paths.push_back(find_data_file(root, folder, name));
    size += cifar_records(paths.back(), format);
  }
  return {.size = static_cast<std::int64_t>(size),
          .load = [paths, format] { return read_cifar(paths, format); },
          .files = paths};
}

ImageFormat image_format(const CifarFormat& format, std::vector<double> mean,
                         std::vector<double> std) {
  return {.channels = 3,
          .height = kImageSide,
          .width = kImageSide,
          .classes = format.classes,
          .mean = std::move(mean),
          .std = std::move(std)};
}

}  // namespace

// The means and standard deviations are those of the training images.
MakeDataSet configure_cifar10(Fields& options) {
  const Augmentation augmentation = read_augmentation(options);
  const ValidationOptions validation = read_validation(options);
  return [augmentation, validation](const std::string& root) {
    const std::string folder = "cifar-10-batches-bin";
    const CifarFormat format = {.label_bytes = 1, .label_at = 0, .classes = 10};
    ImageSplit train =
        open_split(root, folder,
                   {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                    "data_batch_4.bin", "data_batch_5.bin"},
                   format);
    ImageSplit test = open_split(root, folder, {"test_batch.bin"}, format);
    return with_validation(
        image_data_set(image_format(format, {0.4914, 0.4822, 0.4465},
                                    {0.2470, 0.2435, 0.2616}),
                       augmentation, std::move(train), std::move(test)),
        validation);
  };
}

MakeDataSet configure_cifar100(Fields& options) {
  bool fine = true;
  options.key("labels", fine, {{"fine", true}, {"coarse", false}},
              {.text = "100 fine classes, or 20 coarse ones"});
  const Augmentation augmentation = read_augmentation(options);
  const ValidationOptions validation = read_validation(options);
  const CifarFormat format = {.label_bytes = 2,
                              .label_at = fine ? std::size_t{1} : 0,
                              .classes = fine ? 100 : 20};
  return [augmentation, validation, format](const std::string& root) {
    const std::string folder = "cifar-100-binary";
    ImageSplit train = open_split(root, folder, {"train.bin"}, format);
    ImageSplit test = open_split(root, folder, {"test.bin"}, format);
    return with_validation(
        image_data_set(image_format(format, {0.5071, 0.4865, 0.4409},
                                    {0.2673, 0.2564, 0.2762}),
                       augmentation, std::move(train), std::move(test)),
        validation);
  };
}

}  // namespace sluice
