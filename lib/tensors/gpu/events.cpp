#include "lib/tensors/gpu/events.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Pool of the events that one thread takes; any thread may give them back. An
/// event belongs to the device where it was recorded first.
class EventPool {
 public:
  c10::Event take(const c10::Device& device) {
    const std::lock_guard lock(mutex_);
    std::vector<c10::Event>& free = free_[{device.type(), device.index()}];
    if (free.empty()) return c10::Event(device.type());
    c10::Event event = std::move(free.back());
    free.pop_back();
    return event;
  }

  void give(const c10::Device& device, c10::Event event) {
    const std::lock_guard lock(mutex_);
    free_[{device.type(), device.index()}].push_back(std::move(event));
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceType, c10::DeviceIndex>,
           std::vector<c10::Event>>
      free_;
};

}  // namespace

std::shared_ptr<c10::Event> pooled_event(const c10::Device& device) {
  thread_local const auto own = std::make_shared<EventPool>();
  auto taken = std::make_unique<c10::Event>(own->take(device));
  return {taken.release(), [pool = own, device](c10::Event* event) {
            const std::unique_ptr<c10::Event> owner(event);
            pool->give(device, std::move(*event));
          }};
}

}  // namespace sluice
