#include "lib/base/crc32c.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace sluice {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  // crc32_iscsi() takes as many bytes at a time as an int counts.
  constexpr std::size_t kMost = std::size_t{1} << 30;
  std::uint32_t crc = ~before;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMost));
    // crc32_iscsi() only reads the bytes, though its signature isn't const.
    auto* data = const_cast<unsigned char*>(
        reinterpret_cast<const unsigned char*>(part.data()));
    crc = ::crc32_iscsi(data, static_cast<int>(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  return ~crc;
}

}  // namespace sluice
