#include "transport/shared/copy_past_cache.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace sluice {

#if defined(__SSE2__)

void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kLine;
  const std::size_t before =
      std::min(bytes, misaligned == 0 ? 0 : kLine - misaligned);
  std::memcpy(to, from, before);
  const std::size_t lines_end = before + (bytes - before) / kLine * kLine;
  for (std::size_t i = before; i < lines_end; i += sizeof(__m128i)) {
    _mm_stream_si128(
        reinterpret_cast<__m128i*>(to + i),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  std::memcpy(to + lines_end, from + lines_end, bytes - lines_end);
  _mm_sfence();
}

#else

void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

#endif

}  // namespace sluice
