#include "experiments/data/cifar.h"

#include <utility>

#include "experiments/data/data_files.h"
#include "experiments/data/labels.h"
#include "experiments/data/stored_samples.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kImageBytes = std::size_t{3} * 32 * 32;

struct Records {
  std::vector<std::uint8_t> pixels = {};
  std::vector<std::uint8_t> labels = {};
};

void append_file(const std::string& path, const CifarFormat& format,
                 Records& records) {
  const std::vector<std::uint8_t> bytes = read_data_file(path);
  const std::size_t record = format.label_bytes + kImageBytes;
  if (bytes.empty() || bytes.size() % record != 0) {
    throw UserError("{}: has {} bytes, expected a multiple of {} (one record)",
                    path, bytes.size(), record);
  }
  std::vector<std::uint8_t> labels;
  for (std::size_t at = 0; at < bytes.size(); at += record) {
    labels.push_back(bytes[at + format.label_at]);
    const std::uint8_t* image = bytes.data() + at + format.label_bytes;
    records.pixels.insert(records.pixels.end(), image, image + kImageBytes);
  }
  check_labels(path, labels, format.classes);
  records.labels.insert(records.labels.end(), labels.begin(), labels.end());
}

}  // namespace

std::unique_ptr<const Samples> read_cifar(const std::string& root,
                                          const std::string& folder,
                                          const std::vector<std::string>& names,
                                          const CifarFormat& format) {
  Records records;
  for (const std::string& name : names) {
    append_file(find_data_file(root, folder, name), format, records);
  }
  return stored_samples(std::move(records.pixels), std::move(records.labels));
}

MakeDataSet configure_cifar10(Fields&) {
  return [](const std::string& root) {
    const std::string folder = "cifar-10-batches-bin";
    const CifarFormat format = {.label_bytes = 1, .label_at = 0, .classes = 10};
    // Mean and standard deviation of the training images.
    return DataSet{
        .shape = {3, 32, 32},
        .classes = format.classes,
        .mean = {0.4914, 0.4822, 0.4465},
        .std = {0.2470, 0.2435, 0.2616},
        .train = read_cifar(
            root, folder,
            {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
             "data_batch_4.bin", "data_batch_5.bin"},
            format),
        .test = read_cifar(root, folder, {"test_batch.bin"}, format)};
  };
}

}  // namespace sluice
