#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <sys/types.h>

#include "tests/simcuda/clock.h"
#include "tests/simcuda/device_memory.h"

// What processes of the simulated GPU know of each other: each event and each
// memory of CUDA IPC is a file in memory that both have mapped, with the clock
// of the event's last record, or the last uses of the memory.
namespace sluice::simcuda {

/// Held for some microseconds. One whose holder was killed is taken anyway,
/// after seconds.
class SharedLock {
 public:
  void lock();
  void unlock() { taken_.store(0, std::memory_order_release); }

 private:
  std::atomic<std::uint32_t> taken_ = 0;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// A clock in terms that all processes understand: by process.
struct SharedClock {
  struct Part {
    pid_t process = 0;  ///< 0: none
    std::array<std::uint64_t, kStreamsOfProcess> times = {};
  };
  std::array<Part, kProcesses> parts = {};
};
void write_clock(const Clock& clock, SharedClock& to);
Clock read_clock(const SharedClock& shared);

struct SharedUse {
  pid_t process = 0;
  std::uint32_t stream = 0;  ///< in its process
  std::uint64_t time = 0;    ///< 0: there was none
  std::array<char, 64> operation = {};
};

/// The beginning of such a file.
struct SharedBlock {
  enum class Kind : std::uint32_t { memory = 1, event = 2 };

  SharedLock lock;
  Kind kind = Kind::memory;
  std::uint64_t number = 0;  ///< random
  pid_t owner = 0;
  int device = 0;  ///< host_number() of it

  SharedClock recorded = {};  ///< of an event

  std::uint64_t bytes = 0;  ///< of memory, kBytesOffset from the beginning
  SharedUse written = {};
  std::uint32_t reads = 0;
  std::array<SharedUse, 64> read = {};
};
inline constexpr std::size_t kBytesOffset = 65536;
static_assert(sizeof(SharedBlock) <= kBytesOffset);

/// By which another process finds it; as many bytes as a handle of CUDA has.
struct SharedName {
  std::uint64_t magic = 0;
  SharedBlock::Kind kind = SharedBlock::Kind::memory;
  pid_t process = 0;
  int file = -1;
  std::uint32_t reserved = 0;
  std::uint64_t number = 0;
  std::array<std::byte, 32> rest = {};
};
static_assert(sizeof(SharedName) == 64);

/// A block that this process has made or opened, mapped while this lives.
class SharedMapping {
 public:
  /// Throws c10::Error.
  static std::unique_ptr<SharedMapping> make(SharedBlock::Kind kind, int device,
                                             std::size_t bytes);
  /// nullptr: the name is none of a block of that kind, or its process has
  /// ended.
  static std::unique_ptr<SharedMapping> open(const SharedName& name,
                                             SharedBlock::Kind kind);
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  ~SharedMapping();

  SharedBlock& block() const { return *block_; }
  SharedName name() const;  ///< of one that was made here
  bool is_own() const;      ///< made by this process
  /// Whether this process has mapped it, and not the one that it was forked
  /// from.
  bool is_mapped_here() const;
  std::byte* bytes() const;   ///< of memory, as the simulation reads them
  std::byte* hidden() const;  ///< the addresses that programs have

 private:
  SharedMapping(int file, std::size_t bytes);

  const pid_t process_;
  const int file_;
  const std::size_t size_;
  SharedBlock* block_ = nullptr;
  std::byte* hidden_ = nullptr;
};

/// For a use of memory that other processes use too: the allocation has their
/// uses while this lives, and they have its uses from then on. Does nothing
/// with other memory.
class UsesOfAll {
 public:
  explicit UsesOfAll(Allocation& allocation);
  ~UsesOfAll();
  UsesOfAll(const UsesOfAll&) = delete;
  UsesOfAll& operator=(const UsesOfAll&) = delete;

 private:
  Allocation& allocation_;
};

/// Whether the process that owns the block lives.
bool is_alive(const SharedBlock& block);

}  // namespace sluice::simcuda
