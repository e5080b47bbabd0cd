#include "lib/metrics/gpu_clock.h"

#include <utility>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace sluice {
namespace {

constexpr double kMillisecondsPerSecond = 1000;

/// Number of actions that a timed one stands for; 0: it isn't timed.
std::int64_t weight_of_action(std::int64_t number) {
  if (number < GpuClock::kTimed) return 1;
  return number % GpuClock::kTimed == 0 ? GpuClock::kTimed : 0;
}

}  // namespace

c10::Event GpuClock::now() {
  // CUDA events record a time only with the flag BACKEND_DEFAULT.
  if (free_.empty())
    free_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  c10::Event event = std::move(free_.back());
  free_.pop_back();
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return event;
}

void GpuClock::resume(Op op) {
  op_ = op;
  weight_ = weight_of_action(actions_[op]++);
  resume();
}

void GpuClock::resume() {
  if (weight_ > 0)
    intervals_.push_back({op_, weight_, now(), c10::Event(device_.type())});
  running_ = true;
}

bool GpuClock::pause() {
  if (!std::exchange(running_, false)) return false;
  if (weight_ > 0) intervals_.back().end = now();
  return true;
}

void GpuClock::collect(SpentTime& spent, bool all) {
  while (!intervals_.empty()) {
    const bool is_open = running_ && weight_ > 0 && intervals_.size() == 1;
    Interval& oldest = intervals_.front();
    if (is_open || (!all && !oldest.end.query())) return;
    oldest.end.synchronize();
    spent.working[oldest.op] += static_cast<double>(oldest.weight) *
                                oldest.start.elapsedTime(oldest.end) /
                                kMillisecondsPerSecond;
    free_.push_back(std::move(oldest.start));
    free_.push_back(std::move(oldest.end));
    intervals_.pop_front();
  }
}

}  // namespace sluice
