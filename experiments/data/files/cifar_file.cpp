#include "experiments/data/files/cifar_file.h"

#include "experiments/data/files/data_files.h"
#include "experiments/data/files/labels.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::size_t kImageBytes = std::size_t{3} * 32 * 32;

std::size_t record_bytes(const CifarFormat& format) {
  return format.label_bytes + kImageBytes;
}

/// Number of records in a file of so many bytes.
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

}  // namespace

std::uint64_t cifar_records(const std::string& path,
                            const CifarFormat& format) {
  return records_in(path, data_file_size(path), format);
}

Images read_cifar(const std::vector<std::string>& paths,
                  const CifarFormat& format) {
  Images images;
  for (const std::string& path : paths) append_file(path, format, images);
  return images;
}

}  // namespace sluice
