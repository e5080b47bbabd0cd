#include <algorithm>
#include <cstdlib>

#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/simcuda/machine.h"

namespace sluice::simcuda {
namespace {

constexpr std::size_t kBytes = std::size_t{8} << 30;  // of addresses only

std::byte* mapping(int memory, int protection) {
  void* const address =
      ::mmap(nullptr, kBytes, protection, MAP_SHARED, memory, 0);
  TORCH_CHECK(address != MAP_FAILED, "simulated GPU: no addresses are left");
  return static_cast<std::byte*>(address);
}

std::size_t limit_in_environment() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before main()
  const char* const bytes = std::getenv("SIMCUDA_BYTES");
  return bytes == nullptr
             ? kBytes
             : std::min<std::size_t>(kBytes, std::strtoull(bytes, nullptr, 10));
}

/// nullptr: there is none of that size.
std::byte* take_from(std::multimap<std::size_t, std::byte*>& pieces,
                     std::size_t bytes) {
  const auto found = pieces.find(bytes);
  if (found == pieces.end()) return nullptr;
  std::byte* const data = found->second;
  pieces.erase(found);
  return data;
}

}  // namespace

Arena::Arena() : limit_(limit_in_environment()) {
  const int memory = ::memfd_create("simulated GPU", MFD_CLOEXEC);
  TORCH_CHECK(memory >= 0 && ::ftruncate(memory, kBytes) == 0,
              "simulated GPU: memfd_create() failed");
  hidden_ = mapping(memory, PROT_NONE);
  bytes_ = mapping(memory, PROT_READ | PROT_WRITE);
  ::close(memory);
}

std::byte* Arena::allocate(std::size_t bytes) {
  if (std::byte* const data = take_from(released_, bytes)) return data;
  TORCH_CHECK_WITH(OutOfMemoryError, take(bytes),
                   "simulated GPU: out of memory: tried to allocate ", bytes,
                   " bytes");
  if (std::byte* const data = take_from(given_back_, bytes)) return data;
  TORCH_CHECK_WITH(OutOfMemoryError, used_ + bytes <= kBytes,
                   "simulated GPU: no addresses are left");
  std::byte* const data = hidden_ + used_;
  used_ += bytes;
  return data;
}

void Arena::release(std::byte* data, std::size_t bytes) {
  released_.emplace(bytes, data);
}

void Arena::empty_cache() {
  for (const auto& [bytes, data] : released_) taken_ -= bytes;
  given_back_.merge(released_);
}

bool Arena::take(std::size_t bytes) {
  if (taken_ + bytes > limit_) return false;
  taken_ += bytes;
  return true;
}

std::byte* Arena::bytes_at(const std::byte* address) const {
  return bytes_ + (address - hidden_);
}

std::size_t taken_memory(int device) {
  const Lock lock(machine().mutex);
  return machine().arenas.at(static_cast<std::size_t>(device)).taken();
}

void limit_memory(std::size_t bytes) {
  const Lock lock(machine().mutex);
  for (Arena& arena : machine().arenas) arena.limit(std::min(kBytes, bytes));
}

}  // namespace sluice::simcuda
