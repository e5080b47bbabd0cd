#pragma once

#include <cstddef>

namespace sluice {

/// Memory in blocks that are cached when they are freed, so that a program that
/// asks for the same sizes again and again, as training does, takes no page
/// faults. Every thread has an arena, and neither call takes a lock as long as
/// the cache has what is wanted. A block that another thread frees goes back to
/// the arena that it came from. The arena of a thread that ended goes to the
/// next thread that starts. Blocks above 2 MiB are mapped singly, in huge
/// pages, and what is mapped of them follows MemoryBudget; smaller ones are
/// never given back to the system.
///
/// Everything here works until the process is gone, in destructors of static
/// and thread-local objects too. Any thread may call.

/// `bytes` of memory, aligned to kAlignment, not initialised, charged to the
/// account of the innermost MemoryScope. Null for 0 bytes. Throws
/// std::bad_alloc when the system has no more, even after all caches that no
/// running thread owns were given back.
void* allocate_block(std::size_t bytes);

/// Returns false, and does nothing, when `data` is not from allocate_block():
/// memory of malloc(), say. Null is fine. Ends the process when the block is
/// free already.
[[nodiscard]] bool free_block(void* data) noexcept;

/// Gives back to the system what is cached in big blocks by this thread and by
/// those that ended, and forgets the peak that the size of caches follows.
void release_cached_memory() noexcept;

/// Bytes of the blocks above 2 MiB.
struct BigBlocks {
  std::size_t mapped_bytes = 0;
  std::size_t live_bytes = 0;
};
BigBlocks big_blocks();

}  // namespace sluice
