// What every channel promises (lib/base/messages/channel.h), whatever carries
// it. A new kind of channel adds itself at the end.
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/bell.h"
#include "lib/base/messages/channel.h"
#include "tests/transport/links_under_test.h"

namespace sluice::channel_contract_test {

using namespace std::chrono_literals;

// Longer than any machine takes; a test that waits so long has failed.
constexpr Deadline kPatient = 60s;
constexpr Deadline kShort = 50ms;

struct Kind {
  const char* name;
  Ends (*make)(std::size_t capacity, Deadline deadline);
};

class Channel : public testing::TestWithParam<Kind> {
 protected:
  Ends make(std::size_t capacity, Deadline deadline = kPatient) {
    return GetParam().make(capacity, deadline);
  }

  // What comes out at the other end for this tensor.
  TensorView passed(const TensorView& tensor) {
    Ends ends = make(1);
    ends.lower.sender->send(message_of(tensor));
    Message message = *ends.upper.receiver->receive();
    return message.tensors.at(0);
  }
};

TEST_P(Channel, DeliversAMessage) {
  Ends ends = make(1);
  ends.lower.sender->send({.kind = MessageKind::evaluation,
                           .batch = 3,
                           .turn = 4,
                           .weight_version = 5});
  const Message message = *ends.upper.receiver->receive();
  EXPECT_EQ(message.kind, MessageKind::evaluation);
  EXPECT_EQ(message.batch, 3);
  EXPECT_EQ(message.turn, 4);
  EXPECT_EQ(message.weight_version, 5);
}

TEST_P(Channel, KeepsTheOrder) {
  Ends ends = make(4);
  std::thread sender([&] {
    for (int i = 0; i < 500; ++i) ends.lower.sender->send({.batch = i});
  });
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(ends.upper.receiver->receive()->batch, i);
  }
  sender.join();
}

TEST_P(Channel, CarriesSeveralTensorsInOneMessage) {
  Ends ends = make(1);
  Message sent = message_of(counting_tensor(DType::float32, {3}, {1}));
  sent.tensors.push_back(counting_tensor(DType::int64, {5}, {1}));
  sent.tensors.push_back(counting_tensor(DType::uint8, {100}, {1}));
  ends.lower.sender->send(sent);
  const Message message = *ends.upper.receiver->receive();
  ASSERT_EQ(message.tensors.size(), 3u);
  EXPECT_TRUE(same(message.tensors[0], sent.tensors[0]));
  EXPECT_TRUE(same(message.tensors[1], sent.tensors[1]));
  EXPECT_TRUE(same(message.tensors[2], sent.tensors[2]));
}

TEST_P(Channel, DirectionsDontWaitForEachOther) {
  Ends ends = make(1);
  ends.lower.sender->send({.batch = 1});  // full now
  ends.upper.sender->send({.batch = 2});
  EXPECT_EQ(ends.lower.receiver->receive()->batch, 2);
  EXPECT_EQ(ends.upper.receiver->receive()->batch, 1);
}

TEST_P(Channel, BothDirectionsCarryMoreThanTheirBuffersAtOnce) {
  Ends ends = make(1);
  const TensorView big = counting_tensor(DType::uint8, {8 << 20}, {1});
  const auto exchange = [&big](Link& link) {
    for (int i = 0; i < 4; ++i) {
      link.sender->send(message_of(big));
      EXPECT_TRUE(same(link.receiver->receive()->tensors.at(0), big));
    }
  };
  std::thread upper([&] { exchange(ends.upper); });
  exchange(ends.lower);
  upper.join();
}

TEST_P(Channel, WhatWasSentBeforeCloseArrives) {
  Ends ends = make(2);
  ends.lower.sender->send({.batch = 1});
  ends.lower.sender->send({.batch = 2});
  ends.lower.sender->close();
  EXPECT_EQ(ends.upper.receiver->receive()->batch, 1);
  EXPECT_EQ(ends.upper.receiver->receive()->batch, 2);
  EXPECT_FALSE(ends.upper.receiver->receive().has_value());
}

TEST_P(Channel, StaysAtItsEnd) {
  Ends ends = make(1);
  ends.lower.sender->close();
  ends.lower.sender->close();
  EXPECT_FALSE(ends.upper.receiver->receive().has_value());
  EXPECT_FALSE(ends.upper.receiver->receive().has_value());
}

TEST_P(Channel, WhatWasSentArrivesThoughTheSenderIsGone) {
  Ends ends = make(1);
  const TensorView big = counting_tensor(DType::uint8, {8 << 20}, {1});
  ends.lower.sender->send(message_of(big));
  ends.lower.sender->close();
  ends.lower = {};
  EXPECT_TRUE(same(ends.upper.receiver->receive()->tensors.at(0), big));
  EXPECT_FALSE(ends.upper.receiver->receive().has_value());
}

TEST_P(Channel, CloseWakesABlockedReceiver) {
  Ends ends = make(1);
  auto received = std::async(std::launch::async,
                             [&] { return ends.upper.receiver->receive(); });
  ends.lower.sender->close();
  EXPECT_FALSE(received.get().has_value());
}

TEST_P(Channel, CloseLeavesTheOtherDirectionOpen) {
  Ends ends = make(1);
  ends.lower.sender->close();
  EXPECT_FALSE(ends.upper.receiver->receive().has_value());
  ends.upper.sender->send({.batch = 6});
  EXPECT_EQ(ends.lower.receiver->receive()->batch, 6);
}

TEST_P(Channel, RefusesToSendAfterClose) {
  Ends ends = make(1);
  ends.lower.sender->close();
  EXPECT_THROW(ends.lower.sender->send({}), InternalError);
}

TEST_P(Channel, IsDestroyedWithUnreadMessages) {
  const TensorView big = counting_tensor(DType::uint8, {8 << 20}, {1});
  const auto use = [&] {
    Ends ends = make(2);
    ends.lower.sender->send(message_of(big));
    ends.lower.sender->send(message_of(big));
    ends.upper.sender->send(message_of(big));
  };  // would hang here
  EXPECT_NO_THROW(use());
}

TEST_P(Channel, BlocksTheSenderWhileItIsFull) {
  Ends ends = make(2);
  ends.lower.sender->send({.batch = 1});
  ends.lower.sender->send({.batch = 2});
  auto third = std::async(std::launch::async,
                          [&] { ends.lower.sender->send({.batch = 3}); });
  EXPECT_EQ(third.wait_for(kShort), std::future_status::timeout);
  EXPECT_EQ(ends.upper.receiver->receive()->batch, 1);
  third.get();
  EXPECT_EQ(ends.upper.receiver->receive()->batch, 2);
  EXPECT_EQ(ends.upper.receiver->receive()->batch, 3);
}

TEST_P(Channel, GivesUpASendAfterItsDeadline) {
  Ends ends = make(1, kShort);
  ends.lower.sender->send({});
  EXPECT_THROW(ends.lower.sender->send({}), LinkError);
}

TEST_P(Channel, GivesUpAReceiveAfterItsDeadline) {
  Ends ends = make(1, kShort);
  EXPECT_THROW(ends.upper.receiver->receive(), LinkError);
}

TEST_P(Channel, IsReadyWhenReceiveWouldNotBlock) {
  Ends ends = make(1);
  EXPECT_FALSE(ends.upper.receiver->ready());
  ends.lower.sender->send({});
  while (!ends.upper.receiver->ready()) std::this_thread::yield();
  ends.upper.receiver->receive();
  EXPECT_FALSE(ends.upper.receiver->ready());
  ends.lower.sender->close();
  while (!ends.upper.receiver->ready()) std::this_thread::yield();
}

TEST_P(Channel, SenderIsReadyWhenSendWouldNotBlock) {
  Ends ends = make(1);
  EXPECT_TRUE(ends.lower.sender->ready());
  ends.lower.sender->send({});
  EXPECT_FALSE(ends.lower.sender->ready());
  ends.upper.receiver->receive();
  while (!ends.lower.sender->ready()) std::this_thread::yield();
}

TEST_P(Channel, SenderIsReadyToThrow) {
  Ends ends = make(1);
  ends.lower.sender->send({});
  ends.upper = {};
  while (!ends.lower.sender->ready()) std::this_thread::yield();
  EXPECT_THROW(ends.lower.sender->send({}), LinkError);
}

TEST_P(Channel, TellsWhichMessageComesNext) {
  Ends ends = make(2);
  EXPECT_EQ(ends.upper.receiver->next(), std::nullopt);
  ends.lower.sender->send({.kind = MessageKind::evaluation, .batch = 3});
  ends.lower.sender->send({.batch = 4});
  while (!ends.upper.receiver->ready()) std::this_thread::yield();
  EXPECT_EQ(ends.upper.receiver->next(),
            (MessageHead{MessageKind::evaluation, 3}));
  EXPECT_EQ(ends.upper.receiver->receive()->batch, 3);
}

TEST_P(Channel, TellsWhenTheMessageThatComesNextCame) {
  Ends ends = make(2);
  EXPECT_EQ(ends.upper.receiver->next_arrived(), std::nullopt);
  const auto before = std::chrono::steady_clock::now();
  ends.lower.sender->send({.batch = 3});
  while (!ends.upper.receiver->ready()) std::this_thread::yield();
  const auto first = ends.upper.receiver->next_arrived();
  ASSERT_TRUE(first.has_value());
  EXPECT_GE(*first, before);
  EXPECT_LE(*first, std::chrono::steady_clock::now());
  ends.lower.sender->send({.batch = 4});
  EXPECT_EQ(ends.upper.receiver->next_arrived(), first);
  ends.upper.receiver->receive();
  while (!ends.upper.receiver->ready()) std::this_thread::yield();
  EXPECT_GE(ends.upper.receiver->next_arrived(), first);
}

TEST_P(Channel, RingsWhenAMessageComes) {
  Ends ends = make(1);
  const auto bell = std::make_shared<Bell>();
  ends.upper.receiver->ring(bell);
  const auto heard = bell->rung();
  EXPECT_FALSE(bell->wait(heard, kShort));
  ends.lower.sender->send({});
  EXPECT_TRUE(bell->wait(heard, kPatient));
}

TEST_P(Channel, RingsWhenThereIsRoomAgain) {
  Ends ends = make(1);
  ends.lower.sender->send({});
  const auto bell = std::make_shared<Bell>();
  ends.lower.sender->ring(bell);
  const auto heard = bell->rung();
  EXPECT_FALSE(bell->wait(heard, kShort));
  ends.upper.receiver->receive();
  EXPECT_TRUE(bell->wait(heard, kPatient));
}

TEST_P(Channel, RingsWhenThePeerIsGone) {
  Ends ends = make(1);
  const auto bell = std::make_shared<Bell>();
  ends.lower.receiver->ring(bell);
  const auto heard = bell->rung();
  ends.upper = {};
  EXPECT_TRUE(bell->wait(heard, kPatient));
}

TEST_P(Channel, RingsForEachOfManyMessagesAndTheEnd) {
  constexpr int kMessages = 200;
  Ends ends = make(2);
  auto sent = std::async(std::launch::async, [&] {
    for (int i = 0; i < kMessages; ++i) ends.lower.sender->send({.batch = i});
    ends.lower.sender->close();
  });
  const auto bell = std::make_shared<Bell>();
  ends.upper.receiver->ring(bell);
  for (int i = 0; i <= kMessages; ++i) {
    auto heard = bell->rung();
    while (!ends.upper.receiver->ready()) {
      ASSERT_TRUE(bell->wait(heard, kPatient)) << i;
      heard = bell->rung();
    }
    const std::optional<Message> message = ends.upper.receiver->receive();
    ASSERT_EQ(message.has_value(), i < kMessages);
    if (message) {
      EXPECT_EQ(message->batch, i);
    }
  }
  sent.get();
}

TEST_P(Channel, PeerThatGoesWithoutCloseFailsABlockedReceive) {
  Ends ends = make(1);
  auto received = std::async(std::launch::async,
                             [&] { return ends.upper.receiver->receive(); });
  ends.lower = {};
  EXPECT_THROW(received.get(), LinkError);
}

TEST_P(Channel, PeerThatGoesFailsABlockedSend) {
  Ends ends = make(1);
  ends.lower.sender->send({});
  auto sent =
      std::async(std::launch::async, [&] { ends.lower.sender->send({}); });
  ends.upper = {};
  EXPECT_THROW(sent.get(), LinkError);
}

TEST_P(Channel, MessagesOfAPeerThatWentWithoutCloseAreStillRead) {
  Ends ends = make(1);
  ends.lower.sender->send({.batch = 1});
  ends.lower = {};
  EXPECT_EQ(ends.upper.receiver->receive()->batch, 1);
  EXPECT_THROW(ends.upper.receiver->receive(), LinkError);
}

TEST_P(Channel, SenderAloneMayGo) {
  Ends ends = make(1);
  ends.lower.sender.reset();
  EXPECT_THROW(ends.upper.receiver->receive(), LinkError);
  ends.upper.sender->send({.batch = 1});
  EXPECT_EQ(ends.lower.receiver->receive()->batch, 1);
}

TEST_P(Channel, ReceiverAloneMayGo) {
  Ends ends = make(1);
  ends.upper.sender->send({});
  ends.lower.receiver.reset();
  EXPECT_THROW(ends.upper.sender->send({}), LinkError);
  ends.lower.sender->send({.batch = 1});
  EXPECT_EQ(ends.upper.receiver->receive()->batch, 1);
}

TEST_P(Channel, CarriesALargeMessage) {
  const TensorView big = counting_tensor(DType::float32, {16 << 20}, {1});
  EXPECT_TRUE(same(passed(big), big));  // 64 MiB
}

TEST_P(Channel, CarriesEveryDtype) {
  for (std::uint8_t value = 1; value <= 10; ++value) {
    SCOPED_TRACE(static_cast<int>(value));
    const TensorView tensor = counting_tensor(DType{value}, {3, 5}, {5, 1});
    EXPECT_TRUE(same(passed(tensor), tensor));
  }
}

TEST_P(Channel, CarriesEveryNumberOfDimensions) {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  for (std::size_t dimensions = 0; dimensions <= kMaxDimensions; ++dimensions) {
    SCOPED_TRACE(dimensions);
    const TensorView tensor = counting_tensor(DType::float32, sizes, strides);
    EXPECT_TRUE(same(passed(tensor), tensor));
    strides.insert(strides.begin(), std::int64_t{1} << sizes.size());
    sizes.insert(sizes.begin(), 2);
  }
}

TEST_P(Channel, CarriesTensorsOfSizeZero) {
  const TensorView tensor = counting_tensor(DType::float32, {4, 0}, {1, 1});
  EXPECT_TRUE(same(passed(tensor), tensor));
}

TEST_P(Channel, CarriesARepeatedDimensionOnce) {
  const TensorView tensor = counting_tensor(DType::float32, {64, 3}, {0, 1});
  EXPECT_EQ(passed(tensor).buffer.bytes, 12u);
  EXPECT_TRUE(same(passed(tensor), tensor));
}

TEST_P(Channel, CarriesPermutedStrides) {
  const TensorView channels_last =
      counting_tensor(DType::float32, {2, 3, 4, 5}, {60, 1, 15, 3});
  EXPECT_TRUE(same(passed(channels_last), channels_last));
}

TEST_P(Channel, KeepsTheBitsOfNotANumber) {
  TensorView tensor = counting_tensor(DType::float32, {2}, {1});
  const std::uint32_t payloads[] = {0x7FA00001, 0xFFC12345};  // signalling too
  std::memcpy(tensor.buffer.data, payloads, sizeof payloads);
  EXPECT_TRUE(same(passed(tensor), tensor));
}

TEST_P(Channel, StartsEveryTensorAligned) {
  Ends ends = make(1);
  Message sent = message_of(counting_tensor(DType::uint8, {1}, {1}));
  sent.tensors.push_back(counting_tensor(DType::uint8, {65}, {1}));
  sent.tensors.push_back(counting_tensor(DType::uint8, {0}, {1}));
  sent.tensors.push_back(counting_tensor(DType::float32, {7}, {1}));
  ends.lower.sender->send(sent);
  const Message received = *ends.upper.receiver->receive();
  for (const TensorView& tensor : received.tensors) {
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.buffer.data);
    EXPECT_EQ(address % kAlignment, 0u);
  }
}

Ends unix_ends(std::size_t capacity, Deadline deadline) {
  return transport_ends("unix", capacity, deadline);
}
Ends tcp_ends(std::size_t capacity, Deadline deadline) {
  return transport_ends("tcp", capacity, deadline);
}
Ends tls_ends(std::size_t capacity, Deadline deadline) {
  return transport_ends("tls", capacity, deadline);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Channel,
    testing::Values(Kind{"memory", memory_ends}, Kind{"unix", unix_ends},
                    Kind{"tcp", tcp_ends}, Kind{"tls", tls_ends},
                    Kind{"shared_memory", shared_memory_ends}),
    [](const auto& info) { return info.param.name; });

}  // namespace sluice::channel_contract_test
