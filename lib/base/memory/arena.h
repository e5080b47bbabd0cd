#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/buffer.h"
#include "lib/base/memory/account.h"
#include "lib/base/memory/budget.h"
#include "lib/base/memory/size_class.h"

namespace sluice {

class Arena;

/// The header of a block; its data follow. It never lies on another 4 KiB page
/// than the first byte of the data, so that it may be read before one knows
/// whether a pointer is ours.
struct alignas(kAlignment) MemoryBlock {
  /// Tells our blocks from other memory, and used ones from free ones.
  std::uint64_t mark = 0;
  Arena* home = nullptr;
  MemoryBlock* next = nullptr;       // while it is free
  MemoryBalance* balance = nullptr;  // while it is used
  std::size_t bytes = 0;             // that were asked for
  SizeClass size_class = 0;

  void* data() { return this + 1; }
};

static_assert(sizeof(MemoryBlock) == kAlignment);

/// Blocks up to 2 MiB (data) are carved from large pieces and are never given
/// back to the system; big ones, from this class on, are mapped singly.
inline constexpr SizeClass kFirstBigClass =
    size_class_of(std::size_t{2} << 20) + 1;

/// Bytes that a big block takes from the system, header included.
std::size_t mapped_bytes_of(SizeClass size_class);

/// The free blocks of one thread, a list per size class. Only its owner calls
/// it, apart from return_from_elsewhere(). Arenas are never destroyed.
class Arena {
 public:
  explicit Arena(MemoryBudget& budget) : budget_(budget) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A block that was freed; null when there is none.
  MemoryBlock* cached(SizeClass size_class) noexcept;
  /// A block from the system; null when it refuses.
  MemoryBlock* fresh(SizeClass size_class) noexcept;
  /// Takes back a block whose home this is; the last one back is the next out.
  void put(MemoryBlock* block) noexcept;
  /// put() from another thread; the owner sees the block when it runs out.
  void return_from_elsewhere(MemoryBlock* block) noexcept;

  /// Gives cached big blocks back to the system until `bytes` are released.
  /// Returns how many were.
  std::size_t release(std::size_t bytes) noexcept;

 private:
  MemoryBlock* pop(SizeClass size_class) noexcept;
  MemoryBlock* carve(SizeClass size_class) noexcept;
  MemoryBlock* map(SizeClass size_class) noexcept;
  void collect_returned() noexcept;

  MemoryBudget& budget_;
  std::array<MemoryBlock*, kSizeClasses> free_ = {};
  std::byte* rest_ = nullptr;  // of the piece that blocks are carved from
  std::size_t rest_bytes_ = 0;
  // On a cache line of its own, since other threads write it.
  alignas(kAlignment) std::atomic<MemoryBlock*> returned_ = nullptr;
};

}  // namespace sluice
