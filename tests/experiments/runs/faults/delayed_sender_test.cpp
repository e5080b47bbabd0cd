// A longer wire.
#include "experiments/runs/faults/delayed_sender.h"

#include <chrono>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"

namespace sluice::delayed_sender_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr Deadline kLong = 1h;

TEST(DelayedSender, LetsMessagesArriveLaterInTheirOrder) {
  auto [near, far] = memory_link(4, 4, kLong, "link");
  const auto sender = delayed_sender(std::move(near.sender), 20ms, 4);
  const auto sent = Clock::now();
  sender->send({.batch = 1});
  sender->send({.batch = 2});
  EXPECT_EQ(far.receiver->receive()->batch, 1);
  EXPECT_GE(Clock::now() - sent, 20ms);
  EXPECT_EQ(far.receiver->receive()->batch, 2);
}

TEST(DelayedSender, HoldsNoMoreThanItsRoom) {
  auto [near, far] = memory_link(4, 4, kLong, "link");
  const auto sender = delayed_sender(std::move(near.sender), 1h, 2);
  sender->send({});
  EXPECT_TRUE(sender->ready());
  sender->send({});
  EXPECT_FALSE(sender->ready());
}

TEST(DelayedSender, RingsWhenAMessageHasArrived) {
  auto [near, far] = memory_link(4, 4, kLong, "link");
  const auto sender = delayed_sender(std::move(near.sender), 5ms, 1);
  const auto bell = std::make_shared<Bell>();
  sender->ring(bell);
  sender->send({});
  EXPECT_TRUE(bell->wait(0, 1min));
  EXPECT_TRUE(sender->ready());
}

TEST(DelayedSender, DeliversWhatWasSentBeforeItsClose) {
  auto [near, far] = memory_link(4, 4, kLong, "link");
  auto sender = delayed_sender(std::move(near.sender), 5ms, 4);
  sender->send({.batch = 7});
  sender->close();
  sender = nullptr;
  EXPECT_EQ(far.receiver->receive()->batch, 7);
  EXPECT_FALSE(far.receiver->receive());
}

TEST(DelayedSender, ThrowsWhatWentWrongBeforeAtTheNextMessage) {
  auto [near, far] = memory_link(4, 4, kLong, "link");
  const auto sender = delayed_sender(std::move(near.sender), 1ms, 1);
  far = {};
  sender->send({});
  EXPECT_THROW(
      {
        sender->send({});
        sender->send({});
      },
      LinkError);
}

}  // namespace sluice::delayed_sender_test
