#include "lib/base/messages/bell.h"

#include <chrono>
#include <future>
#include <mutex>

#include <gtest/gtest.h>

namespace sluice::bell_test {

using namespace std::chrono_literals;

constexpr auto kPatient = 60s;
constexpr auto kShort = 20ms;

TEST(Bell, WakesWhoWaits) {
  Bell bell;
  auto woken =
      std::async(std::launch::async, [&] { return bell.wait(0, kPatient); });
  EXPECT_EQ(woken.wait_for(kShort), std::future_status::timeout);
  bell.ring();
  EXPECT_TRUE(woken.get());
}

TEST(Bell, IsNotMissedByWhoAsksBeforeItLooks) {
  Bell bell;
  const auto heard = bell.rung();
  bell.ring();
  EXPECT_TRUE(bell.wait(heard, kPatient));
  EXPECT_FALSE(bell.wait(bell.rung(), kShort));
}

TEST(RingingCondition, RingsEveryBell) {
  const auto one = std::make_shared<Bell>();
  const auto other = std::make_shared<Bell>();
  RingingCondition condition;
  condition.add(one);
  condition.notify_all();
  EXPECT_EQ(one->rung(), 1U);
  condition.add(other);
  condition.notify_all();
  EXPECT_EQ(one->rung(), 2U);
  EXPECT_EQ(other->rung(), 1U);
}

}  // namespace sluice::bell_test
