// Time that this process slept through doesn't count. Issue 18, item 9.
#include "lib/base/awake_clock.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

namespace sluice::awake_clock_test {

using namespace std::chrono_literals;
using Time = AwakeClock::Clock::time_point;

TEST(AwakeClock, CountsTimeBetweenLooksThatAreClose) {
  Time time;
  AwakeClock clock(100ms, [&] { return time; });
  const Time start = clock.now();
  for (int i = 0; i < 50; ++i) {
    time += 90ms;
    clock.now();
  }
  EXPECT_EQ(clock.now() - start, 4500ms);
}

TEST(AwakeClock, CountsALongSleepAsTheMostBetweenTwoLooks) {
  Time time;
  AwakeClock clock(100ms, [&] { return time; });
  const Time start = clock.now();
  time += 24h;
  EXPECT_EQ(clock.now() - start, 100ms);
  time += 50ms;
  EXPECT_EQ(clock.now() - start, 150ms);
}

TEST(AwakeClock, IsTheSystemsWhileItIsLookedAt) {
  AwakeClock clock(1h);
  const Time before = AwakeClock::Clock::now();
  const Time now = clock.now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, AwakeClock::Clock::now());
}

TEST(WaitAwake, EndsWhenItsTimeIsOver) {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  const Time start = AwakeClock::Clock::now();
  EXPECT_FALSE(wait_awake(changed, lock, 300ms, [] { return false; }));
  EXPECT_GE(AwakeClock::Clock::now() - start, 300ms);
  EXPECT_TRUE(wait_awake(changed, lock, 0ms, [] { return true; }));
}

}  // namespace sluice::awake_clock_test
