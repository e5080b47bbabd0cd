#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>

#include <c10/core/CachingDeviceAllocator.h>

#include "tests/simcuda/clock.h"

namespace sluice::simcuda {

constexpr int kPoison = 0xEE;  ///< in memory that holds nothing of anybody

/// The memory of a device, mapped twice: a program has addresses that it can't
/// touch, the simulation others for the same bytes.
class Arena {
 public:
  Arena();

  /// Throws c10::OutOfMemoryError.
  std::byte* allocate(std::size_t bytes);
  void release(std::byte* data, std::size_t bytes);
  void limit(std::size_t bytes) { limit_ = bytes; }
  /// The bytes behind an address of the program.
  std::byte* bytes_at(const std::byte* address) const;

 private:
  std::byte* hidden_ = nullptr;
  std::byte* bytes_ = nullptr;
  std::size_t used_ = 0;
  std::size_t limit_;
  std::multimap<std::size_t, std::byte*> released_;  ///< by their size
};

/// Memory of a device that somebody owns.
struct Allocation {
  std::byte* data = nullptr;  ///< as programs see it
  std::size_t bytes = 0;
  int device = 0;
  std::size_t stream = 0;  ///< in which it was allocated
  Use written = {};
  std::map<std::size_t, Use> read = {};  ///< since then, by their stream
  std::set<std::size_t> recorded = {};   ///< streams of record_stream()
};

/// A copy from pinned memory that nobody has been seen to wait for. It reads
/// the host's memory as late as may be.
struct CopyToDevice {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::size_t bytes = 0;
  Use use = {};
};

/// The allocation that the address is in; nullptr where there is none.
Allocation* find_allocation(const void* address);
/// The bytes behind an address in it.
std::byte* bytes_at(const Allocation& allocation, const void* address);

/// Records a use of it, and reports what nothing orders it with.
void read(Allocation& allocation, const Use& use);
void write(Allocation& allocation, const Use& use);

/// Does the copies that are wanted now, and forgets them.
void finish_copies_to_device(
    const std::function<bool(const CopyToDevice&)>& is_wanted);

/// Gives memory of the current device, in its current stream.
c10::DeviceAllocator& device_allocator();

}  // namespace sluice::simcuda
