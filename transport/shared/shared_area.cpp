#include "transport/shared/shared_area.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "lib/base/files/memory_file.h"

#ifndef MADV_POPULATE_WRITE  // of Linux 5.14; older headers lack it
#define MADV_POPULATE_WRITE 23
#endif

namespace sluice {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// One per cache line: different slots are given back by different threads.
struct alignas(kCacheLine) SlotWord {
  std::atomic<std::uint32_t> returned = 0;
};

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

// The area: ring words | slot words | ring | slots, each on pages of its own.
std::uint64_t slot_words_at() {
  return whole_pages(sizeof(RingWords));
}

std::uint64_t ring_at(const AreaShape& shape) {
  return slot_words_at() + whole_pages(shape.slots * sizeof(SlotWord));
}

std::uint64_t slots_at(const AreaShape& shape) {
  return ring_at(shape) + shape.ring_bytes;
}

/// Maps the file, with its first `taken` bytes as pages of this process; the
/// others become so when they are used.
std::byte* map(int file, std::uint64_t bytes, std::uint64_t taken) {
  const int populate = taken == bytes ? MAP_POPULATE : 0;
  void* const start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | populate, file, 0);
  if (start == MAP_FAILED) return nullptr;
  // Faster where it works: kernels before 5.14 can't.
  if (populate == 0) ::madvise(start, taken, MADV_POPULATE_WRITE);
  return static_cast<std::byte*>(start);
}

bool take_bytes(int file, std::uint64_t start, std::uint64_t bytes) {
  return ::fallocate(file, 0, static_cast<off_t>(start),
                     static_cast<off_t>(bytes)) == 0;
}

/// Takes the memory of an area that has no more yet than its size.
bool take_area(int file, const AreaShape& shape, SlotPages pages) {
  if (pages == SlotPages::now)
    return take_bytes(file, 0,
                      slots_at(shape) + shape.slots * shape.slot_bytes);
  if (!take_bytes(file, 0, slots_at(shape))) return false;
  for (std::uint64_t slot = 0; slot < shape.slots; ++slot)
    if (!take_bytes(file, slots_at(shape) + slot * shape.slot_bytes, kPage))
      return false;
  return true;
}

FileDescriptor sealed_file(const AreaShape& shape, SlotPages pages) {
  const std::uint64_t bytes = area_bytes(shape);
  FileDescriptor file(
      make_memory_file("sluice-link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      !take_area(file.get(), shape, pages) ||
      ::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    throw UserError(
        "can't have {} bytes of shared memory for a link: {}; ask for a "
        "smaller ring or fewer slots, or take another transport",
        bytes, errno_text());
  }
  return file;
}

}  // namespace

std::uint64_t area_bytes(const AreaShape& shape) {
  if (!std::has_single_bit(shape.ring_bytes) ||
      shape.ring_bytes < kMinRingBytes || shape.ring_bytes > kMaxRingBytes ||
      shape.slots > kMaxSlots || shape.slot_bytes % kPage != 0 ||
      (shape.slots > 0) != (shape.slot_bytes > 0) ||
      shape.slot_bytes > kMaxAreaBytes / kMaxSlots) {
    return 0;
  }
  return slots_at(shape) + shape.slots * shape.slot_bytes;
}

std::shared_ptr<SharedArea> SharedArea::make(AreaShape shape,
                                             FileDescriptor& file,
                                             SlotPages pages) {
  shape.slot_bytes = shape.slots == 0 ? 0 : whole_pages(shape.slot_bytes);
  const std::uint64_t bytes = area_bytes(shape);
  if (bytes == 0) {
    throw UserError(
        "shared memory with a ring of {} bytes and {} slots of {} bytes; a "
        "ring is a power of two from {} to {}, and there are at most {} slots "
        "of 1 to {} bytes",
        shape.ring_bytes, shape.slots, shape.slot_bytes, kMinRingBytes,
        kMaxRingBytes, kMaxSlots, kMaxAreaBytes / kMaxSlots);
  }
  file = sealed_file(shape, pages);
  std::byte* const start =
      map(file.get(), bytes, pages == SlotPages::now ? bytes : slots_at(shape));
  if (start == nullptr) {
    throw UserError("can't map {} bytes of shared memory: {}", bytes,
                    errno_text());
  }
  std::shared_ptr<SharedArea> area(new SharedArea(shape, start));
  new (start) RingWords;
  for (std::uint64_t slot = 0; slot < shape.slots; ++slot) {
    new (start + slot_words_at() + slot * sizeof(SlotWord)) SlotWord;
  }
  return area;
}

std::shared_ptr<SharedArea> SharedArea::adopt(const AreaShape& shape,
                                              const FileDescriptor& file) {
  const std::uint64_t bytes = area_bytes(shape);
  if (bytes == 0) {
    throw LinkError(
        "it offers shared memory with a ring of {} bytes and {} slots of {} "
        "bytes, which is not allowed",
        shape.ring_bytes, shape.slots, shape.slot_bytes);
  }
  // Seals first: only then does the size stay. The kernel adds some of its own,
  // F_SEAL_EXEC where vm.memfd_noexec says so.
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    throw LinkError("it offers shared memory whose size is not sealed");
  }
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0 ||
      static_cast<std::uint64_t>(status.st_size) != bytes) {
    throw LinkError("it offers shared memory of {} bytes instead of {}",
                    status.st_size, bytes);
  }
  constexpr std::uint64_t kBlockOfStat = 512;
  const bool is_whole =
      static_cast<std::uint64_t>(status.st_blocks) * kBlockOfStat >= bytes;
  std::byte* const start =
      map(file.get(), bytes, is_whole ? bytes : slots_at(shape));
  if (start == nullptr) {
    throw LinkError("its shared memory of {} bytes can't be mapped: {}", bytes,
                    errno_text());
  }
  return std::shared_ptr<SharedArea>(new SharedArea(shape, start));
}

SharedArea::~SharedArea() {
  user_.reset();
  ::munmap(start_, area_bytes(shape_));
}

RingWords& SharedArea::words() const {
  return *std::launder(reinterpret_cast<RingWords*>(start_));
}

std::span<std::byte> SharedArea::ring() const {
  return {start_ + ring_at(shape_), shape_.ring_bytes};
}

std::byte* SharedArea::slot(std::uint64_t slot) const {
  SLUICE_CHECK(slot < shape_.slots, "slot {} of {}", slot, shape_.slots);
  return start_ + slots_at(shape_) + slot * shape_.slot_bytes;
}

std::span<std::byte> SharedArea::slots(std::uint64_t count) const {
  return {start_ + slots_at(shape_),
          std::min(count, shape_.slots) * shape_.slot_bytes};
}

std::string SharedArea::take_slots(std::uint64_t count) const {
  const std::span<std::byte> all = slots(count);
  // Populates the pages: unlike a write there, it says what is wrong.
  if (::madvise(all.data(), all.size(), MADV_POPULATE_WRITE) == 0) return "";
  return fmt::format("{} bytes of shared memory can't be had: {}", all.size(),
                     errno_text());
}

std::atomic<std::uint32_t>& SharedArea::returned(std::uint64_t slot) const {
  SLUICE_CHECK(slot < shape_.slots, "slot {} of {}", slot, shape_.slots);
  std::byte* const word = start_ + slot_words_at() + slot * sizeof(SlotWord);
  return std::launder(reinterpret_cast<SlotWord*>(word))->returned;
}

}  // namespace sluice
