#include "experiments/data/order/fingerprint.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "experiments/data/files/data_files.h"
#include "experiments/data/files/raw_file.h"
#include "lib/base/crc32c.h"

namespace sluice {
namespace {

/// A larger file is not read as a whole, which would take longer than many a
/// run; so many pieces of it are, spread evenly.
constexpr std::uint64_t kReadWhole = std::uint64_t{1} << 30;
constexpr std::uint64_t kParts = 64;
constexpr std::size_t kPartBytes = std::size_t{1} << 20;

std::string name_of(const std::string& path) {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  return name.extension() == ".gz" ? name.stem() : name;
}

/// A file's name with its folder's, for a name that two files have.
std::string longer_name_of(const std::string& path) {
  const std::filesystem::path folder =
      std::filesystem::path(path).parent_path();
  return fmt::format("{}/{}", folder.filename().string(), name_of(path));
}

/// Checksum of a file that is read as it is.
std::string checksum_as_it_is(const std::string& path) {
  const RawFile file(path);
  std::vector<std::byte> piece(kPartBytes);
  std::uint32_t crc = 0;
  if (file.size() > kReadWhole) {
    for (std::uint64_t i = 0; i < kParts; ++i) {
      file.read((file.size() - kPartBytes) / (kParts - 1) * i, piece);
      crc = crc32c(piece, crc);
    }
    return fmt::format("{} bytes, {} pieces of which have CRC-32C {:08x}",
                       file.size(), kParts, crc);
  }
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(kPartBytes, file.size() - at)));
    file.read(at, piece);
    crc = crc32c(piece, crc);
  }
  return fmt::format("{} bytes with CRC-32C {:08x}", file.size(), crc);
}

/// What tells whether a file was written since: inode, size, last change. A
/// file of the last seconds may be written again within a tick of that clock.
struct FileStamp {
  ::ino_t inode = 0;
  ::off_t bytes = 0;
  std::int64_t changed_ns = 0;
  bool is_settled = false;

  static std::optional<FileStamp> of(const std::string& path) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) return std::nullopt;
    constexpr std::int64_t kSecond = 1'000'000'000;
    constexpr std::time_t kSettled = 3;
    return FileStamp{status.st_ino, status.st_size,
                     status.st_ctim.tv_sec * kSecond + status.st_ctim.tv_nsec,
                     status.st_ctim.tv_sec + kSettled < std::time(nullptr)};
  }
  bool operator==(const FileStamp&) const = default;
};

/// Numbers that happen to begin like a gzipped file are none.
std::string read_checksum(const std::string& path) {
  if (!path.ends_with(".gz")) return checksum_as_it_is(path);
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  scan_data_file(path, [&](std::span<const std::uint8_t> piece) {
    bytes += piece.size();
    crc = crc32c(std::as_bytes(piece), crc);
  });
  return fmt::format("{} bytes with CRC-32C {:08x}", bytes, crc);
}

/// The runs of a sweep have the same files: each is read once.
std::string checksum_of(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::pair<FileStamp, std::string>> known;
  const std::optional<FileStamp> before = FileStamp::of(path);
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(path);
      found != known.end() && before == found->second.first)
    return found->second.second;
  std::string checksum = read_checksum(path);
  if (before && before->is_settled)
    known.insert_or_assign(path, std::pair{*before, checksum});
  return checksum;
}

}  // namespace

ConfigNode fingerprint_of(const DataSet& data) {
  ConfigNode files = {.value = ConfigNode::Table{}};
  for (const std::string& path : data.files) {
    const std::string name = name_of(path);
    const bool is_taken = files.find(name) != nullptr;
    files.set(is_taken ? longer_name_of(path) : name,
              {.value = checksum_of(path)});
  }
  if (!data.listing.empty()) files.set("files", {.value = data.listing});
  return files;
}

}  // namespace sluice
