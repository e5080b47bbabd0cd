#include "transport/shared/shared_area.h"

#include <bit>
#include <cerrno>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/base/errno_text.h"
#include "lib/base/error.h"
#include "lib/base/memory_file.h"

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

std::byte* map(int file, std::uint64_t bytes) {
  void* const start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_POPULATE, file, 0);
  return start == MAP_FAILED ? nullptr : static_cast<std::byte*>(start);
}

FileDescriptor sealed_file(std::uint64_t bytes) {
  FileDescriptor file(
      make_memory_file("sluice-link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) != 0 ||
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
                                             FileDescriptor& file) {
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
  file = sealed_file(bytes);
  std::byte* const start = map(file.get(), bytes);
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
  std::byte* const start = map(file.get(), bytes);
  if (start == nullptr) {
    throw LinkError("its shared memory of {} bytes can't be mapped: {}", bytes,
                    errno_text());
  }
  return std::shared_ptr<SharedArea>(new SharedArea(shape, start));
}

SharedArea::~SharedArea() {
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

std::atomic<std::uint32_t>& SharedArea::returned(std::uint64_t slot) const {
  SLUICE_CHECK(slot < shape_.slots, "slot {} of {}", slot, shape_.slots);
  std::byte* const word = start_ + slot_words_at() + slot * sizeof(SlotWord);
  return std::launder(reinterpret_cast<SlotWord*>(word))->returned;
}

}  // namespace sluice
