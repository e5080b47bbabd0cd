#include "experiments/data/fingerprint.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "experiments/data/files/data_files.h"
#include "experiments/data/files/raw_file.h"
#include "lib/base/crc32c.h"

namespace sluice {
namespace {

/// A larger file is not read as a whole, which would take longer than many a
/// run; so many pieces of it are, spread evenly.
constexpr std::uint64_t kReadWhole = std::uint64_t{1} << 30;
constexpr std::uint64_t kPieces = 64;
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

std::string name_of(const std::string& path) {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  return name.extension() == ".gz" ? name.stem() : name;
}

/// With the folder's name, where another file has the same.
std::string longer_name_of(const std::string& path) {
  const std::filesystem::path folder =
      std::filesystem::path(path).parent_path();
  return fmt::format("{}/{}", folder.filename().string(), name_of(path));
}

/// Of a file that is read as it is.
std::string checksum_as_it_is(const std::string& path) {
  const RawFile file(path);
  std::vector<std::byte> piece(kPieceBytes);
  std::uint32_t crc = 0;
  if (file.size() > kReadWhole) {
    for (std::uint64_t i = 0; i < kPieces; ++i) {
      file.read((file.size() - kPieceBytes) / (kPieces - 1) * i, piece);
      crc = crc32c(piece, crc);
    }
    return fmt::format("{} bytes, {} pieces of which have CRC-32C {:08x}",
                       file.size(), kPieces, crc);
  }
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(kPieceBytes, file.size() - at)));
    file.read(at, piece);
    crc = crc32c(piece, crc);
  }
  return fmt::format("{} bytes with CRC-32C {:08x}", file.size(), crc);
}

/// Numbers that happen to begin like a gzipped file are none.
std::string checksum_of(const std::string& path) {
  if (!path.ends_with(".gz")) return checksum_as_it_is(path);
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  scan_data_file(path, [&](std::span<const std::uint8_t> piece) {
    bytes += piece.size();
    crc = crc32c(std::as_bytes(piece), crc);
  });
  return fmt::format("{} bytes with CRC-32C {:08x}", bytes, crc);
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
