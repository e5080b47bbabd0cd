#pragma once

#include <cstddef>

namespace sluice {

/// A multiple of the page size on every machine.
inline constexpr std::size_t kMapUnitBytes = std::size_t{64} << 10;
inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

/// Fresh zeroed memory from the kernel, aligned to kHugePageBytes, in huge
/// pages where the kernel has them to give. Null when it refuses. `bytes` is a
/// multiple of kMapUnitBytes.
std::byte* map_pages(std::size_t bytes) noexcept;
void unmap_pages(std::byte* pages, std::size_t bytes) noexcept;

}  // namespace sluice
