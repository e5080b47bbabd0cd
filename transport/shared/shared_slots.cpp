#include "transport/shared/shared_slots.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

class Loan {
 public:
  Loan(std::shared_ptr<SharedArea> area, std::uint32_t slot)
      : area_(std::move(area)), slot_(slot) {}
  ~Loan() { area_->returned(slot_).fetch_add(1); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

 private:
  const std::shared_ptr<SharedArea> area_;
  const std::uint32_t slot_;
};

}  // namespace

class SlotPool::Hold {
 public:
  Hold(std::shared_ptr<SlotPool> pool, std::size_t slot)
      : pool_(std::move(pool)), slot_(slot) {}
  ~Hold() {
    const std::lock_guard lock(pool_->mutex_);
    pool_->slots_[slot_].held = false;
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  const std::shared_ptr<SlotPool> pool_;
  const std::size_t slot_;
};

SlotPool::SlotPool(std::shared_ptr<SharedArea> area)
    : area_(std::move(area)), slots_(area_->shape().slots) {}

bool SlotPool::is_free(std::size_t slot) const {
  return !slots_[slot].held &&
         slots_[slot].lent == area_->returned(slot).load();
}

Buffer SlotPool::take(std::size_t bytes) {
  Buffer slot = take_free(bytes, slots_.size());
  return slot.data == nullptr ? allocate_buffer(bytes) : slot;
}

Buffer SlotPool::take_free(std::size_t bytes, std::size_t among) {
  if (bytes > area_->shape().slot_bytes) return {};
  const std::size_t end = std::min(among, slots_.size());
  std::size_t slot = 0;
  {
    const std::lock_guard lock(mutex_);
    while (slot < end && !is_free(slot)) ++slot;
    if (slot < end) slots_[slot].held = true;
  }
  if (slot == end) return {};
  return {.data = area_->slot(slot),
          .bytes = bytes,
          .owner = std::make_shared<Hold>(shared_from_this(), slot)};
}

std::optional<std::uint32_t> SlotPool::lend(const Buffer& buffer) {
  const AreaShape& shape = area_->shape();
  if (shape.slots == 0) return std::nullopt;
  // Wraps when the buffer lies before the slots, and is too large then.
  const std::uintptr_t offset =
      reinterpret_cast<std::uintptr_t>(buffer.data) -
      reinterpret_cast<std::uintptr_t>(area_->slot(0));
  const std::uint64_t slot = offset / shape.slot_bytes;
  if (slot >= shape.slots || offset % shape.slot_bytes != 0 ||
      buffer.bytes > shape.slot_bytes) {
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  ++slots_[slot].lent;
  return static_cast<std::uint32_t>(slot);
}

Buffer borrow_slot(std::shared_ptr<SharedArea> area, std::uint32_t slot,
                   std::size_t bytes) {
  std::byte* const data = area->slot(slot);
  return {.data = data,
          .bytes = bytes,
          .owner = std::make_shared<Loan>(std::move(area), slot)};
}

}  // namespace sluice
