#include "lib/base/memory/pages.h"

#include <cerrno>
#include <cstdint>

#include <sys/mman.h>

namespace sluice {

std::byte* map_pages(std::size_t bytes) noexcept {
  const int saved_errno = errno;
  // One huge page more than wanted; what lies outside the alignment goes back.
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

void unmap_pages(std::byte* pages, std::size_t bytes) noexcept {
  const int saved_errno = errno;
  ::munmap(pages, bytes);
  errno = saved_errno;
}

}  // namespace sluice
