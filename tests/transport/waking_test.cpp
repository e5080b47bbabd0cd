// What ends and threads wait and work with.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "transport/links/alarm.h"
#include "transport/links/event_fd.h"
#include "transport/links/exclusive_run.h"
#include "transport/links/spin.h"

namespace sluice::waking_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(EventFd, EndsASleepWhenItIsRung) {
  const EventFd bell;
  const EventFd silent;
  std::thread other([&] { bell.ring(); });
  const auto start = Clock::now();
  bell.sleep(silent, 60s);
  EXPECT_LT(Clock::now() - start, 50s);
  other.join();
}

TEST(EventFd, EndsASleepWhenTheOtherIsRung) {
  const EventFd bell;
  const EventFd other;
  other.ring();
  const auto start = Clock::now();
  bell.sleep(other, 60s);
  EXPECT_LT(Clock::now() - start, 50s);
}

TEST(EventFd, LetsSleepForAsLongAsItIsSilent) {
  const EventFd bell;
  const EventFd silent;
  bell.ring();
  bell.clear();
  const auto start = Clock::now();
  bell.sleep(silent, 20ms);
  EXPECT_GE(Clock::now() - start, 20ms);
}

TEST(EventFd, EventFdOfAPeerRingsItsOwn) {
  const EventFd bell;
  const EventFd silent;
  const EventFd of_peer(FileDescriptor(::dup(bell.descriptor())));
  of_peer.ring();
  const auto start = Clock::now();
  bell.sleep(silent, 60s);
  EXPECT_LT(Clock::now() - start, 50s);
}

TEST(EventFd, EventFdOfAPeerMayNotBeAPipe) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const FileDescriptor reading(ends[0]);
  EXPECT_THROW(EventFd(FileDescriptor(ends[1])), LinkError);
}

TEST(EventFd, EventFdOfAPeerMayNotBlock) {
  EXPECT_THROW(EventFd(FileDescriptor(::eventfd(0, EFD_CLOEXEC))), LinkError);
}

TEST(Alarm, GoesOffAfterItsTime) {
  const Alarm alarm;
  const auto start = Clock::now();
  alarm.set(20ms);
  alarm.wait();
  EXPECT_GE(Clock::now() - start, 20ms);
}

TEST(Alarm, ForgetsATimeForAnother) {
  const Alarm alarm;
  const auto start = Clock::now();
  alarm.set(60s);
  alarm.set(1ms);
  alarm.wait();
  EXPECT_LT(Clock::now() - start, 50s);
  alarm.set(1ms);
  alarm.set(40ms);
  alarm.wait();
  EXPECT_GE(Clock::now() - start, 40ms);
}

TEST(Alarm, WakesWhomItWasSetForAtOnce) {
  const Alarm alarm;
  alarm.set(0ms);
  EXPECT_NO_THROW(alarm.wait());
}

TEST(Spin, FindsWhatIsThere) {
  Spin spin(20us);
  EXPECT_TRUE(spin.until([] { return true; }));
  EXPECT_FALSE(spin.until([] { return false; }));
}

TEST(Spin, LooksLongerAfterAShortWait) {
  Spin spin(20us);
  spin.adapt(45us);
  EXPECT_EQ(spin.time(), 40us);
  spin.adapt(45us);
  EXPECT_EQ(spin.time(), Spin::kLongest);
}

TEST(Spin, LooksHalfAsLongAfterALongWait) {
  Spin spin(20us);
  spin.adapt(1ms);
  EXPECT_EQ(spin.time(), 10us);
}

TEST(Spin, NeverStopsLookingByItself) {
  Spin spin(1us);
  spin.adapt(1ms);
  EXPECT_EQ(spin.time(), Spin::kShortest);
}

TEST(Spin, DoesNotLookWhenItWasToldOff) {
  Spin spin(0us);
  int looks = 0;
  EXPECT_FALSE(spin.until([&] { return ++looks > 0; }));
  EXPECT_EQ(looks, 0);
  spin.adapt(1us);
  EXPECT_EQ(spin.time(), 0us);
}

TEST(ExclusiveRun, IsOneThreadsAtATimeAndLeavesNothingUndone) {
  constexpr int kEach = 20'000;
  ExclusiveRun turn;
  std::atomic<int> asked = 0;
  int done = 0;  // a race, were two threads in the turn
  const auto work = [&] {
    for (int i = 0; i < kEach; ++i) {
      ++asked;
      turn.run([&] { done = asked; });
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(done, 2 * kEach);
}

}  // namespace sluice::waking_test
