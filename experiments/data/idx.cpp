#include "experiments/data/idx.h"

#include <limits>
#include <utility>

#include "experiments/data/data_files.h"
#include "experiments/data/labels.h"
#include "experiments/data/stored_samples.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::int64_t kSide = 28;
constexpr std::int64_t kClasses = 10;
constexpr std::uint32_t kUnsignedBytes = 0x0800;

std::uint32_t big_endian(const std::vector<std::uint8_t>& bytes,
                         std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | bytes[at + i];
  return value;
}

/// Elements of such an array; a header may say anything, so no overflow.
std::uint64_t product(const std::string& path,
                      const std::vector<std::int64_t>& sizes) {
  std::uint64_t count = 1;
  for (const std::int64_t size : sizes) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (factor != 0 &&
        count > std::numeric_limits<std::uint64_t>::max() / factor) {
      throw UserError("{}: its header gives sizes that no file can have", path);
    }
    count *= factor;
  }
  return count;
}

std::unique_ptr<const Samples> read_split(const std::string& root,
                                          const std::string& folder,
                                          const std::string& split) {
  const std::string image_path =
      find_data_file(root, folder, split + "-images-idx3-ubyte");
  const std::string label_path =
      find_data_file(root, folder, split + "-labels-idx1-ubyte");
  IdxFile images = read_idx(image_path, 3);
  IdxFile labels = read_idx(label_path, 1);
  if (images.sizes[1] != kSide || images.sizes[2] != kSide) {
    throw UserError("{}: has images of {}x{}, expected {}x{}", image_path,
                    images.sizes[1], images.sizes[2], kSide, kSide);
  }
  if (images.sizes[0] == 0) throw UserError("{}: has no image", image_path);
  if (images.sizes[0] != labels.sizes[0]) {
    throw UserError("{}: has {} images, but {} has {} labels", image_path,
                    images.sizes[0], label_path, labels.sizes[0]);
  }
  check_labels(label_path, labels.values, kClasses);
  return stored_samples(std::move(images.values), std::move(labels.values));
}

MakeDataSet mnist_like(const std::string& folder, double mean, double std) {
  return [folder, mean, std](const std::string& root) {
    return DataSet{.shape = {1, kSide, kSide},
                   .classes = kClasses,
                   .mean = {mean},
                   .std = {std},
                   .train = read_split(root, folder, "train"),
                   .test = read_split(root, folder, "t10k")};
  };
}

}  // namespace

IdxFile read_idx(const std::string& path, std::size_t dimensions) {
  std::vector<std::uint8_t> bytes = read_data_file(path);
  const std::size_t header = 4 + 4 * dimensions;
  if (bytes.size() < header) {
    throw UserError("{}: has {} bytes, expected an idx header of {}", path,
                    bytes.size(), header);
  }
  const std::uint32_t magic = big_endian(bytes, 0);
  const std::uint32_t expected =
      kUnsignedBytes | static_cast<std::uint32_t>(dimensions);
  if (magic != expected) {
    throw UserError(
        "{}: starts with {:#010x}, expected {:#010x} (idx, unsigned bytes, {} "
        "dimension{})",
        path, magic, expected, dimensions, dimensions == 1 ? "" : "s");
  }
  IdxFile file;
  for (std::size_t i = 0; i < dimensions; ++i) {
    file.sizes.push_back(big_endian(bytes, 4 + 4 * i));
  }
  const std::uint64_t count = product(path, file.sizes);
  if (bytes.size() - header != count) {
    throw UserError("{}: has {} bytes after its header, which promises {}",
                    path, bytes.size() - header, count);
  }
  bytes.erase(bytes.begin(),
              bytes.begin() + static_cast<std::ptrdiff_t>(header));
  file.values = std::move(bytes);
  return file;
}

// The means and standard deviations are those of the training images.
MakeDataSet configure_mnist(Fields&) {
  return mnist_like("mnist", 0.1307, 0.3081);
}

MakeDataSet configure_fashion_mnist(Fields&) {
  return mnist_like("fashion-mnist", 0.2860, 0.3530);
}

MakeDataSet configure_kmnist(Fields&) {
  return mnist_like("kmnist", 0.1918, 0.3483);
}

}  // namespace sluice
