#include "experiments/data/files/idx_file.h"

#include <limits>
#include <utility>

#include "experiments/data/files/data_files.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

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

std::size_t header_bytes(std::size_t dimensions) {
  return 4 + 4 * dimensions;
}

/// Bytes of the header and of the values that it promises.
std::uint64_t file_bytes(const std::string& path,
                         const std::vector<std::int64_t>& sizes) {
  const std::uint64_t header = header_bytes(sizes.size());
  const std::uint64_t values = product(path, sizes);
  return values > std::numeric_limits<std::uint64_t>::max() - header
             ? values
             : values + header;
}

/// The sizes that the header at the start of `bytes` gives.
std::vector<std::int64_t> parse_header(const std::string& path,
                                       const std::vector<std::uint8_t>& bytes,
                                       std::size_t dimensions) {
  const std::size_t header = header_bytes(dimensions);
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
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < dimensions; ++i) {
    sizes.push_back(big_endian(bytes, 4 + 4 * i));
  }
  return sizes;
}

void check_length(const std::string& path, std::uint64_t file_bytes,
                  const std::vector<std::int64_t>& sizes) {
  const std::uint64_t count = product(path, sizes);
  const std::uint64_t found = file_bytes - header_bytes(sizes.size());
  if (found != count) {
    throw UserError("{}: has {} bytes after its header, which promises {}",
                    path, found, count);
  }
}

}  // namespace

std::vector<std::int64_t> read_idx_sizes(const std::string& path,
                                         std::size_t dimensions) {
  std::vector<std::int64_t> sizes = parse_header(
      path, read_data_head(path, header_bytes(dimensions)), dimensions);
  if (!is_gzipped(path)) check_length(path, data_file_size(path), sizes);
  return sizes;
}

IdxFile read_idx(const std::string& path, std::size_t dimensions) {
  IdxFile file;
  // A file that has been unpacked says its length before it is read.
  file.sizes = read_idx_sizes(path, dimensions);
  std::vector<std::uint8_t> bytes =
      read_data_file(path, file_bytes(path, file.sizes));
  check_length(path, bytes.size(), file.sizes);
  const auto header = static_cast<std::ptrdiff_t>(header_bytes(dimensions));
  bytes.erase(bytes.begin(), bytes.begin() + header);
  file.values = std::move(bytes);
  return file;
}

}  // namespace sluice
