#include "experiments/data/fingerprint.h"

#include <cstdint>
#include <filesystem>
#include <span>

#include <fmt/format.h>

#include "experiments/data/files/data_files.h"
#include "transport/wire/frame.h"

namespace sluice {
namespace {

std::string name_of(const std::string& path) {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  return name.extension() == ".gz" ? name.stem() : name;
}

std::string checksum_of(const std::string& path) {
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
  for (const std::string& path : data.files)
    files.set(name_of(path), {.value = checksum_of(path)});
  return files;
}

}  // namespace sluice
