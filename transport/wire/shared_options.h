#pragma once

#include <chrono>
#include <cstddef>

namespace sluice {

/// Options of a link over shared memory for the direction in which it sends.
/// The other end decides for itself.
struct SharedMemoryOptions {
  /// Size of the ring, a power of two from 64 KiB to 1 GiB. Messages may be
  /// larger.
  std::size_t ring_bytes = std::size_t{1} << 20;
  /// Buffers that the sender may fill in place (slots_of()), at most 256.
  std::size_t slots = 0;
  std::size_t slot_bytes = 0;  ///< of each
  /// Slots have a page each until pin_slots() takes the rest of them; till then
  /// a buffer of one has no more.
  bool slots_on_demand = false;
  /// Time that an end looks for what it waits for before it sleeps, at most 50
  /// us; it adapts from here. 0: it sleeps at once, always.
  std::chrono::microseconds spin{20};
};

}  // namespace sluice
