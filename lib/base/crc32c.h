#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// CRC-32C (Castagnoli) of the bytes, after those that `before` is of.
std::uint32_t crc32c(std::span<const std::byte> bytes,
                     std::uint32_t before = 0);

}  // namespace sluice
