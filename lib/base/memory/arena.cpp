#include "lib/base/memory/arena.h"

#include <new>
#include <utility>

#include "lib/base/memory/pages.h"

namespace sluice {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

Block* new_block(std::byte* place, Arena& home, SizeClass size_class) {
  auto* const block = new (place) Block;
  block->home = &home;
  block->size_class = size_class;
  return block;
}

}  // namespace

std::size_t mapped_bytes_of(SizeClass size_class) {
  const std::size_t wanted = sizeof(Block) + size_of_class(size_class);
  return (wanted + kMapUnitBytes - 1) / kMapUnitBytes * kMapUnitBytes;
}

Block* Arena::cached(SizeClass size_class) noexcept {
  if (Block* const block = pop(size_class)) return block;
  collect_returned();
  return pop(size_class);
}

Block* Arena::fresh(SizeClass size_class) noexcept {
  return size_class < kFirstBigClass ? carve(size_class) : map(size_class);
}

Block* Arena::pop(SizeClass size_class) noexcept {
  Block* const block = free_[size_class];
  if (block != nullptr) free_[size_class] = block->next;
  return block;
}

void Arena::put(Block* block) noexcept {
  block->next = std::exchange(free_[block->size_class], block);
}

void Arena::return_from_elsewhere(Block* block) noexcept {
  block->next = returned_.load(std::memory_order_relaxed);
  while (!returned_.compare_exchange_weak(block->next, block,
                                          std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
}

void Arena::collect_returned() noexcept {
  // All at once: so no block can leave the stack and come back meanwhile.
  Block* block = returned_.exchange(nullptr, std::memory_order_acquire);
  while (block != nullptr) {
    Block* const next = block->next;
    put(block);
    block = next;
  }
}

Block* Arena::carve(SizeClass size_class) noexcept {
  const std::size_t wanted = sizeof(Block) + size_of_class(size_class);
  if (rest_bytes_ < wanted + kAlignment) {
    std::byte* const piece = map_pages(kPieceBytes);
    if (piece == nullptr) return nullptr;
    rest_ = piece;
    rest_bytes_ = kPieceBytes;
  }
  // No data start on a page: see Block.
  const auto data = reinterpret_cast<std::uintptr_t>(rest_) + sizeof(Block);
  const std::size_t skipped = data % 4096 == 0 ? kAlignment : 0;
  std::byte* const place = rest_ + skipped;
  rest_ = place + wanted;
  rest_bytes_ -= skipped + wanted;
  return new_block(place, *this, size_class);
}

Block* Arena::map(SizeClass size_class) noexcept {
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
      Block* const block = pop(i);
      if (block == nullptr) break;
      released += mapped_bytes_of(i);
      budget_.unmapped(mapped_bytes_of(i));
      unmap_pages(reinterpret_cast<std::byte*>(block), mapped_bytes_of(i));
    }
  }
  return released;
}

}  // namespace sluice
