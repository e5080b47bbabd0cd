#include "lib/metrics/gpu_clock.h"

#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace sluice {
namespace {

constexpr double kMillisecondsPerSecond = 1000;

}  // namespace

c10::Event GpuClock::now() const {
  // CUDA events record a time only with the flag BACKEND_DEFAULT.
  c10::Event event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return event;
}

void GpuClock::resume(Op op) {
  op_ = op;
  intervals_.push_back({op, now(), c10::Event(device_.type())});
  running_ = true;
}

bool GpuClock::pause() {
  if (!std::exchange(running_, false)) return false;
  intervals_.back().end = now();
  return true;
}

void GpuClock::collect(TimeSpent& spent, bool all) {
  while (!intervals_.empty()) {
    const bool is_open = running_ && intervals_.size() == 1;
    const Interval& oldest = intervals_.front();
    if (is_open || (!all && !oldest.end.query())) return;
    oldest.end.synchronize();
    spent.working[oldest.op] +=
        oldest.start.elapsedTime(oldest.end) / kMillisecondsPerSecond;
    intervals_.pop_front();
  }
}

}  // namespace sluice
