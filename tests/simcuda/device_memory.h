#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
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
  /// Keeps the memory for the next request of that size, as LibTorch's
  /// allocator does.
  void release(std::byte* data, std::size_t bytes);
  /// Gives what is kept back to the device.
  void empty_cache();
  /// Takes memory of the device that somebody else asks for; false: there is
  /// not so much.
  bool take(std::size_t bytes);
  std::size_t taken() const { return taken_; }
  std::size_t limit() const { return limit_; }
  void limit(std::size_t bytes) { limit_ = bytes; }
  /// The bytes behind an address of the program.
  std::byte* bytes_at(const std::byte* address) const;

 private:
  std::byte* hidden_ = nullptr;
  std::byte* bytes_ = nullptr;
  std::size_t used_ = 0;   ///< addresses
  std::size_t taken_ = 0;  ///< bytes of the device
  std::size_t limit_;
  std::multimap<std::size_t, std::byte*> released_;    ///< by their size
  std::multimap<std::size_t, std::byte*> given_back_;  ///< only addresses
};

struct SharedBlock;  // runtime/shared_block.h
struct GraphMemory;  // capture.h

/// Memory of a device that somebody owns.
struct Allocation {
  std::byte* data = nullptr;  ///< as programs see it
  std::size_t bytes = 0;
  int device = 0;
  std::size_t stream = 0;  ///< in which it was allocated
  Use written = {};
  std::map<std::size_t, Use> read = {};  ///< since then, by their stream
  std::set<std::size_t> recorded = {};   ///< streams of record_stream()
  /// Memory of CUDA IPC, which is in no arena: what all its processes know of
  /// it, and its bytes as the simulation has them.
  SharedBlock* shared = nullptr;
  std::byte* mapped = nullptr;
  /// Memory of a graph; nullptr: it is of none.
  std::shared_ptr<GraphMemory> graph = nullptr;
};

/// A copy from pinned memory without a known wait for it. It reads
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
/// Operands of an operation of the thread's current stream: where that is
/// captured, what the capture has in their place.
std::byte* operands_at(const Allocation& allocation, const void* address);

/// Records a use of it, and reports what nothing orders it with. A use at time
/// 0 is none.
void read(Allocation& allocation, const Use& use);
void write(Allocation& allocation, const Use& use);

/// Does the copies that are wanted now, and forgets them.
void finish_copies_to_device(
    const std::function<bool(const CopyToDevice&)>& is_wanted);
/// Finishes the copies that an operation in a stream finds done.
void finish_copies_into(const Allocation& allocation);

/// The graph of that memory is gone: what no tensor has any more is released.
void release_memory(GraphMemory& memory);

/// Gives memory of the current device, in its current stream.
c10::DeviceAllocator& device_allocator();

}  // namespace sluice::simcuda
