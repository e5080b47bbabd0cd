#include "lib/base/memory/arena.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace sluice {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{32} << 20;
/// A multiple of the page size on every machine.
constexpr std::size_t kMapUnitBytes = std::size_t{64} << 10;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

void unmap_pages(std::byte* pages, std::size_t bytes) noexcept {
  const int saved_errno = errno;
  ::munmap(pages, bytes);
  errno = saved_errno;
}

/// Fresh zeroed memory from the kernel, aligned to kHugePageBytes, in huge
/// pages where the kernel has them to give. Null when it refuses. `bytes` is a
/// multiple of kMapUnitBytes.
std::byte* map_pages(std::size_t bytes) noexcept {
  const int saved_errno = errno;
  // Room for one huge page more than wanted; what lies outside the alignment
  // goes back.
  const std::size_t room = bytes + kHugePageBytes;
  void* const mapped = ::mmap(nullptr, room, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  errno = saved_errno;
  if (mapped == MAP_FAILED) return nullptr;
  auto* const start = static_cast<std::byte*>(mapped);
  const std::size_t misfit =
      reinterpret_cast<std::uintptr_t>(start) % kHugePageBytes;
  const std::size_t before = misfit == 0 ? 0 : kHugePageBytes - misfit;
  std::byte* const pages = start + before;
  if (before > 0) unmap_pages(start, before);
  unmap_pages(pages + bytes, kHugePageBytes - before);
  // A kernel without huge pages says no, which is no reason to fail.
  ::madvise(pages, bytes, MADV_HUGEPAGE);
  errno = saved_errno;
  return pages;
}

MemoryBlock* new_block(std::byte* place, Arena& home, SizeClass size_class) {
  auto* const block = new (place) MemoryBlock;
  block->home = &home;
  block->size_class = size_class;
  return block;
}

}  // namespace

std::size_t mapped_bytes_of(SizeClass size_class) {
  const std::size_t wanted = sizeof(MemoryBlock) + size_of_class(size_class);
  return (wanted + kMapUnitBytes - 1) / kMapUnitBytes * kMapUnitBytes;
}

MemoryBlock* Arena::cached(SizeClass size_class) noexcept {
  if (MemoryBlock* const block = pop(size_class)) return block;
  collect_returned();
  return pop(size_class);
}

MemoryBlock* Arena::fresh(SizeClass size_class) noexcept {
  return size_class < kFirstBigClass ? carve(size_class) : map(size_class);
}

MemoryBlock* Arena::pop(SizeClass size_class) noexcept {
  MemoryBlock* const block = free_[size_class];
  if (block != nullptr) free_[size_class] = block->next;
  return block;
}

void Arena::put(MemoryBlock* block) noexcept {
  block->next = std::exchange(free_[block->size_class], block);
}

void Arena::return_from_elsewhere(MemoryBlock* block) noexcept {
  block->next = returned_.load(std::memory_order_relaxed);
  while (!returned_.compare_exchange_weak(block->next, block,
                                          std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

void Arena::collect_returned() noexcept {
  // Takes all at once, so that no block can leave the stack and come back
  // meanwhile.
  MemoryBlock* block = returned_.exchange(nullptr, std::memory_order_acquire);
  while (block != nullptr) {
    MemoryBlock* const next = block->next;
    put(block);
    block = next;
  }
}

MemoryBlock* Arena::carve(SizeClass size_class) noexcept {
  const std::size_t wanted = sizeof(MemoryBlock) + size_of_class(size_class);
  if (rest_bytes_ < wanted + kAlignment) {
    std::byte* const piece = map_pages(kPieceBytes);
    if (piece == nullptr) return nullptr;
    rest_ = piece;
    rest_bytes_ = kPieceBytes;
  }
  // No data start on a page: see MemoryBlock.
  const auto data =
      reinterpret_cast<std::uintptr_t>(rest_) + sizeof(MemoryBlock);
  const std::size_t skipped = data % 4096 == 0 ? kAlignment : 0;
  std::byte* const place = rest_ + skipped;
  rest_ = place + wanted;
  rest_bytes_ -= skipped + wanted;
  return new_block(place, *this, size_class);
}

MemoryBlock* Arena::map(SizeClass size_class) noexcept {
  const std::size_t bytes = mapped_bytes_of(size_class);
  std::byte* const pages = map_pages(bytes);
  if (pages == nullptr) return nullptr;
  budget_.mapped(bytes);
  return new_block(pages, *this, size_class);
}

std::size_t Arena::release(std::size_t bytes) noexcept {
  collect_returned();
  std::size_t released = 0;
  for (SizeClass i = kSizeClasses; i-- > kFirstBigClass;) {
    while (released < bytes) {
      MemoryBlock* const block = pop(i);
      if (block == nullptr) break;
      released += mapped_bytes_of(i);
      budget_.unmapped(mapped_bytes_of(i));
      unmap_pages(reinterpret_cast<std::byte*>(block), mapped_bytes_of(i));
    }
  }
  return released;
}

}  // namespace sluice
