#include "lib/base/messages/departing_sender.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/bell.h"
#include "lib/base/messages/channel_around.h"
#include "lib/base/messages/memory_channel.h"

namespace sluice::departing_sender_test {

using namespace std::chrono_literals;

/// Bytes that come when the test lets them.
class LateBytes {
 public:
  void come() { promise_.set_value(); }
  Message message(std::int64_t batch) const {
    TensorView tensor{.sizes = {0}, .strides = {1}};
    tensor.buffer.wait_ready = [came = came_] { came.wait(); };
    Message message{.batch = batch};
    message.tensors.push_back(std::move(tensor));
    return message;
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> came_ = promise_.get_future().share();
};

/// The batch that came; -1: the end.
std::int64_t next_of(Receiver& receiver) {
  const std::optional<Message> message = receiver.receive();
  return message ? message->batch : -1;
}

struct Channel {
  explicit Channel(std::size_t capacity = 4) {
    auto [in, out] = memory_channel(capacity, 60s);
    sender = departing_sender(std::move(in), 60s);
    receiver = std::move(out);
  }
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
};

TEST(DepartingSender, DoesNotWaitForBytesThatAreToCome) {
  LateBytes bytes;
  Channel channel;
  channel.sender->send(bytes.message(1));
  EXPECT_FALSE(channel.receiver->ready());
  EXPECT_FALSE(channel.sender->ready());
  bytes.come();
  EXPECT_EQ(next_of(*channel.receiver), 1);
}

/// Message whose bytes have an is_ready().
Message asked_for(std::int64_t batch, std::function<bool()> is_ready,
                  std::function<void()> wait) {
  TensorView tensor{.sizes = {0}, .strides = {1}};
  tensor.buffer.wait_ready = std::move(wait);
  tensor.buffer.is_ready = std::move(is_ready);
  Message message{.batch = batch};
  message.tensors.push_back(std::move(tensor));
  return message;
}

TEST(DepartingSender, AsksForBytesRatherThanWaitForThem) {
  std::atomic<int> asked = 0;
  std::atomic<int> waited = 0;
  Channel channel;
  channel.sender->send(asked_for(
      1, [&] { return ++asked > 3; }, [&] { ++waited; }));
  EXPECT_EQ(next_of(*channel.receiver), 1);
  EXPECT_EQ(asked.load(), 4);
  EXPECT_EQ(waited.load(), 0);
}

TEST(DepartingSender, DestroyedWithoutACloseWaitsForNoBytesThatItAsksFor) {
  std::atomic<int> asked = 0;
  Channel channel;
  channel.sender->send(asked_for(
      1, [&] { return ++asked < 0; }, [] {}));
  while (asked == 0) std::this_thread::sleep_for(1ms);
  channel.sender.reset();
  EXPECT_THROW(channel.receiver->receive(), PeerGoneError);
}

TEST(DepartingSender, KeepsTheOrder) {
  LateBytes bytes;
  Channel channel;
  channel.sender->send(bytes.message(1));
  channel.sender->send({.batch = 2});
  EXPECT_FALSE(channel.receiver->ready());
  bytes.come();
  EXPECT_EQ(next_of(*channel.receiver), 1);
  EXPECT_EQ(next_of(*channel.receiver), 2);
}

TEST(DepartingSender, LetsTwoWait) {
  LateBytes bytes;
  Channel channel;
  channel.sender->send(bytes.message(1));
  channel.sender->send(bytes.message(2));
  std::future<void> third = std::async(
      std::launch::async, [&] { channel.sender->send(bytes.message(3)); });
  EXPECT_EQ(third.wait_for(50ms), std::future_status::timeout);
  bytes.come();
  third.get();
  for (std::int64_t batch = 1; batch <= 3; ++batch)
    EXPECT_EQ(next_of(*channel.receiver), batch);
}

/// Notes which thread sends.
class Noting final : public SenderAround {
 public:
  Noting(std::unique_ptr<Sender> channel, std::thread::id& by)
      : SenderAround(std::move(channel)), by_(by) {}
  void send(Message message) override {
    by_ = std::this_thread::get_id();
    inner().send(std::move(message));
  }

 private:
  std::thread::id& by_;
};

TEST(DepartingSender, SendsWhatIsReadyByItself) {
  auto [in, out] = memory_channel(4, 60s);
  std::thread::id by;
  const auto sender =
      departing_sender(std::make_unique<Noting>(std::move(in), by), 60s);
  sender->send({.batch = 1});
  EXPECT_EQ(by, std::this_thread::get_id());
  LateBytes bytes;
  bytes.come();
  sender->send(bytes.message(2));
  EXPECT_EQ(next_of(*out), 1);
  EXPECT_EQ(next_of(*out), 2);
  EXPECT_NE(by, std::this_thread::get_id());
}

TEST(DepartingSender, ClosesBehindWhatWasSent) {
  LateBytes bytes;
  Channel channel;
  channel.sender->send(bytes.message(1));
  channel.sender->close();
  EXPECT_FALSE(channel.receiver->ready());
  bytes.come();
  channel.sender.reset();
  EXPECT_EQ(next_of(*channel.receiver), 1);
  EXPECT_EQ(next_of(*channel.receiver), -1);
}

TEST(DepartingSender, ClosesWithoutAThread) {
  Channel channel;
  channel.sender->close();
  channel.sender->close();
  EXPECT_EQ(next_of(*channel.receiver), -1);
}

/// As when a worker fails: no receiver takes what waits.
TEST(DepartingSender, DestroyedWithoutACloseWaitsForNoRoom) {
  LateBytes bytes;
  Channel channel(1);
  channel.sender->send({.batch = 1});
  channel.sender->send(bytes.message(2));
  bytes.come();
  std::this_thread::sleep_for(10ms);
  const auto begun = std::chrono::steady_clock::now();
  channel.sender.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
  EXPECT_EQ(next_of(*channel.receiver), 1);
  EXPECT_THROW(channel.receiver->receive(), LinkError);
}

TEST(DepartingSender, TellsTheNextSendWhatWentWrong) {
  Channel channel;
  const auto bell = std::make_shared<Bell>();
  channel.sender->ring(bell);
  const std::uint64_t heard = bell->rung();
  Message message{.batch = 1};
  TensorView tensor{.sizes = {0}, .strides = {1}};
  tensor.buffer.wait_ready = [] { throw InternalError("the GPU is lost"); };
  message.tensors.push_back(std::move(tensor));
  channel.sender->send(std::move(message));
  EXPECT_TRUE(bell->wait(heard, 60s));
  EXPECT_TRUE(channel.sender->ready());
  EXPECT_THROW(channel.sender->send({.batch = 2}), InternalError);
}

}  // namespace sluice::departing_sender_test
