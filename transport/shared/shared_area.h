#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "transport/links/file_descriptor.h"
#include "transport/shared/shared_ring.h"

namespace sluice {

/// How large the parts of an area are, bytes.
struct AreaShape {
  std::uint64_t ring_bytes = 0;
  std::uint64_t slots = 0;
  std::uint64_t slot_bytes = 0;  ///< rounded up to whole pages

  bool operator==(const AreaShape&) const = default;
};

/// Limits within which a peer's area is believed before it is mapped.
inline constexpr std::uint64_t kMinRingBytes = std::uint64_t{64} << 10;
inline constexpr std::uint64_t kMaxRingBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kMaxSlots = 256;
inline constexpr std::uint64_t kMaxAreaBytes = std::uint64_t{64} << 30;

/// The whole area in bytes, or 0 when the shape is not within the limits.
std::uint64_t area_bytes(const AreaShape& shape);

/// The moment at which memory for slots is taken from the system.
enum class SlotPages : std::uint8_t {
  now,
  on_demand,  ///< the first of each now, the others by SharedArea::take_slots()
};

/// Memory that two processes share for one direction of a link: a ring, and
/// slots for whole tensors. It has no name, so it is gone with the last process
/// that maps it; its size is sealed, so no peer can cut it off under a reader.
/// All in it may change at any time: the peer writes there too.
class SharedArea {
 public:
  /// Throws UserError when the system has not so much memory or the shape is
  /// not allowed. `file` becomes what to pass to the peer.
  static std::shared_ptr<SharedArea> make(AreaShape shape, FileDescriptor& file,
                                          SlotPages pages = SlotPages::now);
  /// The area that a peer made. Throws LinkError unless the file is sealed and
  /// has the size of that shape.
  static std::shared_ptr<SharedArea> adopt(const AreaShape& shape,
                                           const FileDescriptor& file);
  ~SharedArea();
  SharedArea(const SharedArea&) = delete;
  SharedArea& operator=(const SharedArea&) = delete;

  const AreaShape& shape() const { return shape_; }
  RingWords& words() const;
  std::span<std::byte> ring() const;
  /// `slot` < shape().slots.
  std::byte* slot(std::uint64_t slot) const;
  /// The first `count` slots, or as many as there are.
  std::span<std::byte> slots(std::uint64_t count) const;
  /// Takes their pages, so that writing there can't fail. "", or why that can't
  /// be.
  std::string take_slots(std::uint64_t count) const;
  /// Keeps `user` of the memory until just before it is unmapped. One, by one
  /// thread.
  void keep(std::shared_ptr<void> user) { user_ = std::move(user); }
  /// Number of times that the receiver has given the slot back.
  std::atomic<std::uint32_t>& returned(std::uint64_t slot) const;

 private:
  SharedArea(const AreaShape& shape, std::byte* start)
      : shape_(shape), start_(start) {}

  const AreaShape shape_;
  std::byte* const start_;
  std::shared_ptr<void> user_;
};

}  // namespace sluice
