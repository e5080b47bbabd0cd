#include "lib/base/messages/bell.h"

#include <algorithm>

#include "lib/base/awake_clock.h"

namespace sluice {
namespace {

// Longer waits overflow the clock.
constexpr std::chrono::milliseconds kLongest = std::chrono::hours(8760);

}  // namespace

void Bell::ring() {
  const std::lock_guard lock(mutex_);
  ++rung_;
  changed_.notify_all();
}

std::uint64_t Bell::rung() const {
  const std::lock_guard lock(mutex_);
  return rung_;
}

bool Bell::wait(std::uint64_t heard, std::chrono::milliseconds most) const {
  std::unique_lock lock(mutex_);
  return wait_awake(changed_, lock, std::min(most, kLongest),
                    [&] { return rung_ > heard; });
}

void RingingCondition::notify_all() {
  changed_.notify_all();
  for (const auto& bell : bells_) bell->ring();
}

}  // namespace sluice
