#pragma once

#include <cstddef>

namespace sluice {

/// Copies as memcpy() does, for bytes that aren't read before other data has
/// taken their place in the cache: where the processor can, they go straight to
/// memory, which spares reading what they overwrite, and what is in the cache
/// stays. Others see them no later than what this thread writes after it
/// returns.
void copy_past_cache(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace sluice
