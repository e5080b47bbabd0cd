#include "lib/workers/seat_clock.h"

namespace sluice {

SeatClock::SeatClock(const c10::Device& device) {
  if (!device.is_cpu()) gpu_.emplace(device);
}

void SeatClock::measure(Op op, const std::function<void()>& work) {
  if (!gpu_) {
    const ActionTimer timer(spent_, op);
    return work();
  }
  gpu_->resume(op);
  work();
  gpu_->pause();
  gpu_->collect(spent_, /*all=*/false);
}

void SeatClock::collect() {
  if (gpu_) gpu_->collect(spent_, /*all=*/true);
}

SeatClock::WaitScope::WaitScope(SeatClock& clock)
    : stopwatch_(clock.spent_.waiting),
      gpu_(clock.gpu_),
      was_running_(gpu_ && gpu_->pause()) {}

SeatClock::WaitScope::~WaitScope() {
  if (was_running_) gpu_->resume();
}

}  // namespace sluice
