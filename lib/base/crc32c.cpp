#include "lib/base/crc32c.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace sluice {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  // It takes no more bytes at a time than an int counts.
  constexpr std::size_t kMost = std::size_t{1} << 30;
  std::uint32_t crc = ~before;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kMost));
    // It only reads them, though it says otherwise.
    auto* data = const_cast<unsigned char*>(
        reinterpret_cast<const unsigned char*>(part.data()));
    crc = ::crc32_iscsi(data, static_cast<int>(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  return ~crc;
}

}  // namespace sluice
