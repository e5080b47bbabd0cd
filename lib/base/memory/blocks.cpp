#include "lib/base/memory/blocks.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <vector>

#include "lib/base/memory/arena.h"

namespace sluice {
namespace {

constexpr std::uint64_t kUsed = 0x5c1b1ce0a110c8edU;
constexpr std::uint64_t kFree = 0x5c1b1ce0f4eeb10cU;
constexpr auto kEverything = std::numeric_limits<std::size_t>::max();

// The arenas that no thread owns, and what all have in common.
class Arenas {
 public:
  Arena* adopt() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      // put_back() must not run out of memory.
      idle_.reserve(++count_);
      return new Arena(budget_);
    }
    Arena* const arena = idle_.back();
    idle_.pop_back();
    return arena;
  }

  void put_back(Arena* arena) noexcept {
    const std::lock_guard lock(mutex_);
    idle_.push_back(arena);
  }

  // Gives back `bytes` of what is cached, if there is so much.
  void release(Arena& own, std::size_t bytes) noexcept {
    if (bytes == 0) return;
    std::size_t released = own.release(bytes);
    if (released >= bytes) return;
    const std::lock_guard lock(mutex_);
    for (Arena* const arena : idle_) {
      released += arena->release(bytes - released);
      if (released >= bytes) return;
    }
  }

  MemoryBudget& budget() { return budget_; }

 private:
  MemoryBudget budget_;
  std::mutex mutex_;
  std::vector<Arena*> idle_;  // guarded by mutex_
  std::size_t count_ = 0;     // guarded by mutex_
};

// Never destroyed: tensors are freed after main() too.
Arenas& arenas() {
  static auto* const all = new Arenas;
  return *all;
}

// Plain pointers, which need no destructor, for the way that is always taken.
constinit thread_local Arena* own_arena = nullptr;
constinit thread_local bool has_ended = false;

struct ArenaReturn {
  void arm() const {}
  ~ArenaReturn() {
    arenas().put_back(own_arena);
    own_arena = nullptr;
    has_ended = true;
  }
};

// The arena of this thread; while thread-local objects are destroyed and ours
// is gone, one for a single call.
class OwnArena {
 public:
  OwnArena() : arena_(own_arena) {
    if (arena_ == nullptr) adopt();
  }
  ~OwnArena() {
    if (has_ended) arenas().put_back(arena_);
  }
  OwnArena(const OwnArena&) = delete;
  OwnArena& operator=(const OwnArena&) = delete;

  Arena& operator*() const { return *arena_; }
  Arena* operator->() const { return arena_; }

 private:
  void adopt() {
    arena_ = arenas().adopt();
    if (has_ended) return;
    own_arena = arena_;
    static thread_local const ArenaReturn at_thread_end;
    at_thread_end.arm();
  }

  Arena* arena_;
};

std::uint64_t mark_of(const MemoryBlock* block, std::uint64_t state) {
  return state ^ reinterpret_cast<std::uintptr_t>(block);
}

// Null when the data are not ours; then what lies before them was read, which
// AddressSanitizer must not see.
[[gnu::no_sanitize_address]] MemoryBlock* block_of(void* data) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  // Never our data; and what lies before it may not be readable.
  if (address % kAlignment != 0 || address % 4096 == 0) return nullptr;
  MemoryBlock* const block = static_cast<MemoryBlock*>(data) - 1;
  if (block->mark == mark_of(block, kUsed)) return block;
  if (block->mark != mark_of(block, kFree)) return nullptr;
  std::fputs("sluice: a tensor's memory was freed twice\n", stderr);
  std::abort();
}

bool is_big(SizeClass size_class) {
  return size_class >= kFirstBigClass;
}

MemoryBlock* obtain(Arena& own, SizeClass size_class) {
  if (MemoryBlock* const block = own.cached(size_class)) return block;
  if (is_big(size_class)) {
    arenas().release(own,
                     arenas().budget().excess(mapped_bytes_of(size_class)));
  }
  if (MemoryBlock* const block = own.fresh(size_class)) return block;
  arenas().release(own, kEverything);
  if (MemoryBlock* const block = own.fresh(size_class)) return block;
  throw std::bad_alloc();
}

}  // namespace

void* allocate_block(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (bytes > kLargestBlock) throw std::bad_alloc();
  const OwnArena own;
  MemoryBlock* const block = obtain(*own, size_class_of(bytes));
  if (is_big(block->size_class))
    arenas().budget().taken(mapped_bytes_of(block->size_class));
  block->bytes = bytes;
  block->balance = charge_current_account(bytes);
  block->mark = mark_of(block, kUsed);
  return block->data();
}

bool free_block(void* data) noexcept {
  if (data == nullptr) return true;
  MemoryBlock* const block = block_of(data);
  if (block == nullptr) return false;
  block->mark = mark_of(block, kFree);
  if (block->balance != nullptr) block->balance->credit(block->bytes);
  if (is_big(block->size_class))
    arenas().budget().given_back(mapped_bytes_of(block->size_class));
  if (block->home == own_arena) {
    own_arena->put(block);
  } else {
    block->home->return_from_elsewhere(block);
  }
  return true;
}

void release_cached_memory() noexcept {
  const OwnArena own;
  arenas().budget().reset_peak();
  arenas().release(*own, kEverything);
}

BigBlocks big_blocks() {
  const MemoryBudget& budget = arenas().budget();
  return {.mapped_bytes = budget.mapped_bytes(),
          .live_bytes = budget.live_bytes()};
}

}  // namespace sluice
