#pragma once

#include <algorithm>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sluice {

/// Looks for something for a short time before its caller goes to sleep: waking
/// costs some 20 us. The time adapts to how long its caller waits: twice after
/// a wait that the longest look would have met, half after a longer one. (Were
/// it halved whenever it was in vain, two ends that wake each other could never
/// get out of their sleep.) One thread at a time.
class Spin {
 public:
  using Time = std::chrono::nanoseconds;
  static constexpr Time kLongest = std::chrono::microseconds(50);
  /// Shortest time to look for: from 0 it couldn't grow again.
  static constexpr Time kShortest = std::chrono::microseconds(1);

  /// 0: never look.
  explicit Spin(Time start) : time_(std::min(start, kLongest)) {}

  /// Spins until there(). Returns whether that became true.
  template <class There>
  bool until(There there) {
    using Clock = std::chrono::steady_clock;
    if (time_ <= Time(0)) return false;
    const Clock::time_point end = Clock::now() + time_;
    do {
      for (int i = 0; i < 16; ++i) {
        if (there()) return true;
        pause();
      }
    } while (Clock::now() < end);
    return false;
  }

  /// Adapts to a wait that took so long, sleep included.
  void adapt(Time waited) {
    if (time_ <= Time(0)) return;
    time_ = waited <= kLongest ? std::min(2 * time_, kLongest)
                               : std::max(time_ / 2, kShortest);
  }

  Time time() const { return time_; }

 private:
  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#endif
  }

  Time time_;
};

}  // namespace sluice
