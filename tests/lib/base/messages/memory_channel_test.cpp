#include "lib/base/messages/memory_channel.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"

// What every channel promises is in tests/transport/channel_contract_test.cpp;
// here is what only the channel in memory does.
namespace sluice::memory_channel_test {

using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace std::chrono_literals;

constexpr Deadline kPatient = 20s;
constexpr Deadline kShort = 20ms;

TEST(MemoryChannel, SharesTheBuffers) {
  const auto [sender, receiver] = memory_channel(1, kPatient);
  const Buffer buffer = allocate_buffer(4);
  sender->send({.tensors = {{.sizes = {1}, .strides = {1}, .buffer = buffer}}});
  EXPECT_EQ(receiver->receive()->tensors.at(0).buffer.data, buffer.data);
}

TEST(MemoryChannel, ReleasesTheBufferWithTheMessage) {
  const auto [sender, receiver] = memory_channel(1, kPatient);
  const Buffer buffer = allocate_buffer(4);
  sender->send({.tensors = {{.sizes = {1}, .strides = {1}, .buffer = buffer}}});
  receiver->receive();
  EXPECT_EQ(buffer.owner.use_count(), 1);
}

TEST(MemoryChannel, IsReadyWhenAMessageIsThere) {
  const auto [sender, receiver] = memory_channel(1, kPatient);
  EXPECT_FALSE(receiver->ready());
  sender->send({});
  EXPECT_TRUE(receiver->ready());
}

TEST(MemoryChannel, GivesUpAFullChannelAfterTheDeadline) {
  const auto [sender, receiver] = memory_channel(1, kShort, "block 1 to 2");
  sender->send({});
  EXPECT_THAT([&sender = sender] { sender->send({}); },
              ThrowsMessage<LinkError>(HasSubstr("block 1 to 2: 1 messages")));
}

TEST(MemoryChannel, GivesUpAnEmptyChannelAfterTheDeadline) {
  const auto [sender, receiver] = memory_channel(1, kShort);
  EXPECT_THAT([&receiver = receiver] { receiver->receive(); },
              ThrowsMessage<LinkError>(HasSubstr("no message within 20 ms")));
}

TEST(MemoryChannel, RefusesToSendAfterClose) {
  const auto [sender, receiver] = memory_channel(1, kPatient);
  sender->close();
  EXPECT_THROW(sender->send({}), InternalError);
}

TEST(MemoryChannel, NeedsRoomForAMessage) {
  EXPECT_THROW(memory_channel(0, kPatient), InternalError);
}

TEST(MemoryChannel, TakesADeadlineOfForever) {
  const auto [sender, receiver] = memory_channel(1, Deadline::max());
  std::thread later([&sender = *sender] { sender.send({.batch = 5}); });
  EXPECT_EQ(receiver->receive()->batch, 5);
  later.join();
}

TEST(MemoryLink, CarriesUpAndDown) {
  const auto [lower, upper] = memory_link(1, 1, kPatient);
  lower.sender->send({.batch = 1});
  upper.sender->send({.batch = 2});
  EXPECT_EQ(upper.receiver->receive()->batch, 1);
  EXPECT_EQ(lower.receiver->receive()->batch, 2);
}

}  // namespace sluice::memory_channel_test
