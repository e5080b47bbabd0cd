#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <utility>

namespace sluice {

/// Time in which this process ran: that by which it measures for how long
/// others were silent. When it is suspended (Ctrl-Z, a paused virtual machine,
/// scontrol suspend), they may be so too. Whether the system's clock goes on
/// meanwhile doesn't matter: a waiting thread looks at this one every
/// kAwakeLook, and a longer time between two looks counts as `most`. Safe to
/// use from several threads.
class AwakeClock {
 public:
  using Clock = std::chrono::steady_clock;
  /// The system's clock, but in tests.
  using Source = std::function<Clock::time_point()>;

  static constexpr Clock::duration kMost = std::chrono::milliseconds(250);

  explicit AwakeClock(Clock::duration most = kMost, Source source = Clock::now)
      : most_(most), source_(std::move(source)), looked_(source_()) {}

  /// A look. Never before an earlier one; no time of the system's clock.
  Clock::time_point now();

 private:
  const Clock::duration most_;
  const Source source_;
  std::mutex mutex_;
  // Under the mutex.
  Clock::time_point looked_;
  Clock::duration asleep_ = {};
};

/// How often a waiting thread looks at its AwakeClock.
inline constexpr std::chrono::milliseconds kAwakeLook(100);

/// Waits with a condition variable until `done()`; false when this process has
/// run for `most` first.
template <class Condition, class Done>
bool wait_awake(Condition& changed, std::unique_lock<std::mutex>& lock,
                std::chrono::nanoseconds most, Done done) {
  if (done()) return true;
  AwakeClock clock;
  const auto until = clock.now() + most;
  for (auto left = most; left.count() > 0; left = until - clock.now())
    if (changed.wait_for(
            lock, std::min<std::chrono::nanoseconds>(left, kAwakeLook), done))
      return true;
  return false;
}

}  // namespace sluice
