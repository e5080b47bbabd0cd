#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "lib/base/buffer.h"
#include "transport/shared/shared_area.h"

namespace sluice {

/// The sender's view of the slots of its area: filling one and sending it
/// copies no bytes. A slot is free again when the sender has let go of the
/// buffer and the receiver has given back all that were sent. Any thread may
/// call. Buffers outlive the pool's other owners: they hold it, and it holds
/// the area.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  explicit SlotPool(std::shared_ptr<SharedArea> area);

  /// A free slot; ordinary memory when none is free or `bytes` are more than a
  /// slot has, so that no thread waits here.
  Buffer take(std::size_t bytes);
  /// Takes one of the first `among` slots; a buffer without data when none of
  /// them is free or has so much.
  Buffer take_free(std::size_t bytes, std::size_t among);
  bool has_slots() const { return area_->shape().slots > 0; }
  /// The buffer's slot, which the receiver now has once more, or nothing when
  /// it doesn't start one.
  std::optional<std::uint32_t> lend(const Buffer& buffer);

 private:
  class Hold;
  struct Slot {
    bool held = false;       // by a buffer of ours
    std::uint32_t lent = 0;  // how often it was sent
  };

  bool is_free(std::size_t slot) const;

  const std::shared_ptr<SharedArea> area_;
  std::mutex mutex_;
  std::vector<Slot> slots_;  // guarded by mutex_
};

/// The receiver's view: the slot as a buffer, which gives it back with its last
/// copy and keeps the area until then. `bytes` are at most a slot's.
Buffer borrow_slot(std::shared_ptr<SharedArea> area, std::uint32_t slot,
                   std::size_t bytes);

}  // namespace sluice
