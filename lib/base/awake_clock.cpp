#include "lib/base/awake_clock.h"

namespace sluice {

AwakeClock::Clock::time_point AwakeClock::now() {
  const std::lock_guard lock(mutex_);
  const Clock::time_point time = source_();
  asleep_ += std::max(time - looked_ - most_, Clock::duration::zero());
  looked_ = time;
  return time - asleep_;
}

}  // namespace sluice
