// Tensors that stay on a GPU on their way to another process: over a real link
// of shared memory, with a stand-in for the GPU (fake_gpu.h). The real one is
// tested in tests/gpu/ipc_test.cpp.
#include "transport/shared/ipc_link.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/channel_around.h"
#include "tests/transport/fake_gpu.h"
#include "tests/transport/links_under_test.h"
#include "transport/shared/ipc_parcel.h"

namespace sluice::ipc_link_test {

using namespace std::chrono_literals;
using testing::HasSubstr;

// What the program's own stages in pinned memory.
class ThroughHost final : public SenderAround {
 public:
  ThroughHost(std::unique_ptr<Sender> channel, FakeHost& host)
      : SenderAround(std::move(channel)), host_(host) {}
  void send(Message message) override {
    for (TensorView& tensor : message.tensors) {
      if (tensor.buffer.device.kind == Device::Kind::cpu) continue;
      host_.gpu.run_all();
      const Buffer there = tensor.buffer;
      tensor.buffer = allocate_buffer(there.bytes);
      std::memcpy(tensor.buffer.data, there.data, there.bytes);
    }
    inner().send(std::move(message));
  }

 private:
  FakeHost& host_;
};

/// Two processes, the lower one of which sends up.
struct Pair {
  explicit Pair(std::size_t capacity = 4,
                FakeGpu::Order order = FakeGpu::Order::random,
                unsigned seed = 1)
      : host{.gpu = FakeGpu(order, seed)} {
    LinkOptions options = test_options(capacity, 60s);
    options.shared_memory = with_parcels(options.shared_memory, capacity);
    ends = ends_of(open_shared_link, options);
    slots = slots_of(*ends.lower.sender);
    raw = ends.lower.sender.get();
    sender = ipc_sender(
        std::make_unique<ThroughHost>(std::move(ends.lower.sender), host),
        slots, options.shared_memory.slots, lower, traffic);
    count = options.shared_memory.slots;
    receiver = ipc_receiver(std::move(ends.upper.receiver), upper, lower->id());
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    receiver.reset();
    sender.reset();
    host.gpu.run_all();  // what it still has holds tensors
  }

  void send(const std::vector<TensorView>& wanted) {
    Message message;
    for (const TensorView& tensor : wanted)
      message.tensors.push_back(lower->compute(tensor));
    sender->send(std::move(message));
  }
  /// What its current stream reads of the next message.
  std::vector<TensorView> read() {
    std::vector<TensorView> tensors;
    const std::optional<Message> message = receiver->receive();
    for (const TensorView& tensor : message->tensors)
      tensors.push_back(upper->read(tensor));
    return tensors;
  }

  FakeHost host;
  std::shared_ptr<FakeProcess> lower = std::make_shared<FakeProcess>(host, 1);
  std::shared_ptr<FakeProcess> upper = std::make_shared<FakeProcess>(host, 2);
  std::shared_ptr<DeviceTraffic> traffic = std::make_shared<DeviceTraffic>();
  Ends ends;
  Sender* raw = nullptr;
  BufferSource slots;
  std::size_t count = 0;
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
};

TensorView floats(std::int64_t count) {
  return counting_tensor(DType::float32, {count}, {1});
}

/// Tensor whose bytes say which message it belongs to.
TensorView numbered(std::size_t bytes, std::size_t number) {
  TensorView tensor =
      counting_tensor(DType::uint8, {static_cast<std::int64_t>(bytes)}, {1});
  for (std::size_t i = 0; i < bytes; ++i)
    tensor.buffer.data[i] ^= static_cast<std::byte>(number);
  return tensor;
}

TEST(IpcLink, KeepsNamesTypesShapesAndBits) {
  Pair pair;
  const TensorView repeated =
      counting_tensor(DType::bfloat16, {4, 5, 6}, {1, 0, 4});
  const TensorView scalar = counting_tensor(DType::int64, {}, {});
  const TensorView whole = counting_tensor(
      DType::float64, {1, 2, 1, 2, 1, 2, 1, 3}, {24, 12, 12, 6, 6, 3, 3, 1});
  pair.send({repeated, scalar, whole});
  const std::vector<TensorView> received = pair.read();
  pair.host.gpu.run_all();
  ASSERT_EQ(received.size(), 3u);
  EXPECT_TRUE(same(received[0], repeated));
  EXPECT_TRUE(same(received[1], scalar));
  EXPECT_TRUE(same(received[2], whole));
}

TEST(IpcLink, BringsNothingToTheHost) {
  Pair pair;
  pair.send({floats(1'000'000)});
  pair.read();
  EXPECT_EQ(copied_bytes(*pair.raw), 0u);
  EXPECT_EQ(pair.traffic->by_ipc, 1);
}

TEST(IpcLink, PutsTheTensorsOnTheReceiversDevice) {
  Pair pair;
  pair.send({floats(3)});
  const Message message = *pair.receiver->receive();
  EXPECT_EQ(message.tensors[0].buffer.device.kind, Device::Kind::cuda);
}

TEST(IpcLink, LeavesTensorsOfTheHostAlone) {
  Pair pair;
  Message message = message_of(pair.lower->compute(floats(3)));
  const TensorView label = counting_tensor(DType::int64, {5}, {1});
  message.tensors.push_back(label);
  pair.sender->send(message);
  const Message received = *pair.receiver->receive();
  ASSERT_EQ(received.tensors.size(), 2u);
  EXPECT_TRUE(same(received.tensors[1], label));
  EXPECT_EQ(received.tensors[1].buffer.device, Device());
}

TEST(IpcLink, SendsEmptyTensorsWithoutTheGpu) {
  Pair pair;
  const TensorView none = counting_tensor(DType::float16, {0, 7}, {7, 1});
  pair.send({none});
  const Message received = *pair.receiver->receive();
  EXPECT_TRUE(same(received.tensors[0], none));
  EXPECT_EQ(pair.lower->allocations, 0);
}

// The order in which the streams go on, and how far they are.
struct Chance {
  FakeGpu::Order order;
  unsigned seed;
};

class AnyOrder : public testing::TestWithParam<Chance> {};

// Tensors of many sizes, growing and shrinking; up to `capacity` messages wait;
// the GPU is behind by any amount. Slots are used again and again.
TEST_P(AnyOrder, GivesTheBitsThatWereSent) {
  constexpr std::size_t kCapacity = 3;
  constexpr std::size_t kMessages = 200;
  Pair pair(kCapacity, GetParam().order, GetParam().seed);
  std::mt19937 random(GetParam().seed);
  std::vector<std::vector<TensorView>> sent;
  std::vector<std::vector<TensorView>> received;
  while (received.size() < kMessages) {
    const std::size_t waiting = sent.size() - received.size();
    const bool sends = sent.size() < kMessages && waiting < kCapacity &&
                       (waiting == 0 || random() % 2 == 0);
    if (sends) {
      sent.emplace_back();
      for (std::size_t i = 0; i <= random() % 3; ++i)
        sent.back().push_back(
            numbered(1 + random() % 5000, sent.size() + 100 * i));
      pair.send(sent.back());
    } else {
      received.push_back(pair.read());
    }
    if (random() % 3 == 0) pair.host.gpu.run(random() % 30);
  }
  pair.host.gpu.run_all();
  for (std::size_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(received[i].size(), sent[i].size());
    for (std::size_t j = 0; j < sent[i].size(); ++j)
      ASSERT_TRUE(same(received[i][j], sent[i][j])) << i << ", " << j;
  }
  EXPECT_EQ(copied_bytes(*pair.raw), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    Orders, AnyOrder,
    testing::Values(Chance{FakeGpu::Order::random, 1},
                    Chance{FakeGpu::Order::random, 2},
                    Chance{FakeGpu::Order::random, 3},
                    Chance{FakeGpu::Order::first_stream, 4},
                    Chance{FakeGpu::Order::last_stream, 5}));

// The sender's streams go first: only `taken` holds the second copy back, into
// the memory that the first one is still to be read from.
TEST(IpcLink, WritesNoMemoryThatIsNotReadYet) {
  Pair pair(4, FakeGpu::Order::first_stream);
  pair.send({numbered(100, 1)});
  const std::vector<TensorView> first = pair.read();
  pair.send({numbered(100, 2)});
  EXPECT_EQ(pair.lower->allocations, 1);
  const std::vector<TensorView> second = pair.read();
  pair.host.gpu.run_all();
  EXPECT_TRUE(same(first[0], numbered(100, 1)));
  EXPECT_TRUE(same(second[0], numbered(100, 2)));
}

/// What is computed waits for the copy, by the event that the sender waits for.
TEST(IpcLink, GivesNothingToBeReadThatHasNotArrived) {
  for (const bool hands_over : {true, false}) {
    Pair pair(4, FakeGpu::Order::first_stream);  // the one that computes
    pair.upper->hands_over = hands_over;
    pair.send({numbered(100, 1)});
    const std::vector<TensorView> read = pair.read();
    pair.host.gpu.run_all();
    EXPECT_EQ(same(read[0], numbered(100, 1)), hands_over);
  }
}

TEST(IpcLink, OpensEachHandleOnce) {
  Pair pair;
  for (std::size_t i = 0; i < 50; ++i) {
    pair.send({numbered(100, i)});
    pair.read();
  }
  EXPECT_EQ(pair.upper->opened, 3);  // the memory and two events of a slot
}

TEST(IpcLink, HasMemoryForAsManyTensorsAsAreUnderWay) {
  Pair pair;
  for (std::size_t i = 0; i < 20; ++i) {
    pair.send({numbered(100, i)});
    pair.send({numbered(100, i)});
    pair.read();
    pair.read();
  }
  EXPECT_EQ(pair.lower->allocations, 2);
}

TEST(IpcLink, MemoryThatIsTooSmallAtLeastDoubles) {
  Pair pair;
  for (std::size_t bytes = 1; bytes <= 1000; ++bytes) {
    pair.send({numbered(bytes, bytes)});
    const std::vector<TensorView> received = pair.read();
    pair.host.gpu.run_all();
    ASSERT_TRUE(same(received[0], numbered(bytes, bytes)));
  }
  EXPECT_EQ(pair.lower->allocations, 11);
}

TEST(IpcLink, WhoKeepsMessagesKeepsNoSlots) {
  Pair pair(1);
  std::vector<Message> kept;
  for (std::size_t i = 0; i < 3 * pair.count; ++i) {
    pair.send({numbered(100, i)});
    kept.push_back(*pair.receiver->receive());
  }
  EXPECT_EQ(pair.traffic->by_ipc, static_cast<std::int64_t>(3 * pair.count));
  EXPECT_EQ(pair.lower->allocations, 1);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const TensorView read = pair.upper->read(kept[i].tensors[0]);
    pair.host.gpu.run_all();
    EXPECT_TRUE(same(read, numbered(100, i)));
  }
}

TEST(IpcLink, WhatHasNoSlotGoesThroughTheHost) {
  Pair pair(1);
  std::vector<TensorView> sent;
  for (std::size_t i = 0; i < pair.count + 2; ++i)
    sent.push_back(numbered(100, i));
  pair.send(sent);
  const std::vector<TensorView> received = pair.read();
  pair.host.gpu.run_all();
  ASSERT_EQ(received.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i)
    EXPECT_TRUE(same(received[i], sent[i])) << i;
  EXPECT_EQ(pair.traffic->by_ipc, static_cast<std::int64_t>(pair.count));
  EXPECT_EQ(copied_bytes(*pair.raw), 200u);
}

TEST(IpcLink, WhatTheGpuHasNoMemoryForGoesThroughTheHost) {
  Pair pair;
  pair.host.free_bytes = 150;
  pair.send({numbered(100, 1), numbered(100, 2)});
  const std::vector<TensorView> received = pair.read();
  pair.host.gpu.run_all();
  EXPECT_TRUE(same(received[0], numbered(100, 1)));
  EXPECT_TRUE(same(received[1], numbered(100, 2)));
  EXPECT_EQ(pair.traffic->by_ipc, 1);
}

/// Asking costs milliseconds, and the cache of what computes.
TEST(IpcLink, MemoryThatWasRefusedIsNotAskedForAgainButTold) {
  Pair pair;
  std::vector<std::string> told;
  pair.traffic->tell = [&](const std::string& why) { told.push_back(why); };
  pair.host.free_bytes = 150;
  for (std::size_t i = 0; i < 5; ++i) {
    pair.send({numbered(200, i)});
    pair.read();
  }
  EXPECT_EQ(pair.lower->asked, 1);
  EXPECT_THAT(told, testing::ElementsAre(HasSubstr("no 200 bytes left")));
  EXPECT_EQ(pair.traffic->why_host, told.at(0));
  pair.send({numbered(100, 1)});  // a size that wasn't refused is tried
  pair.read();
  EXPECT_EQ(pair.traffic->by_ipc, 1);
  pair.host.gpu.run_all();
}

/// At a run's end: the sender may end at once, and its memory with it.
TEST(IpcLink, WhatIsDiscardedIsReadFromNoGpu) {
  Pair pair;
  pair.send({numbered(100, 1)});
  EXPECT_TRUE(pair.receiver->discard());
  EXPECT_EQ(pair.upper->opened, 0);
  pair.send({numbered(100, 2)});
  const std::vector<TensorView> second = pair.read();
  pair.host.gpu.run_all();
  EXPECT_TRUE(same(second[0], numbered(100, 2)));
  pair.sender->close();
  EXPECT_FALSE(pair.receiver->discard());
}

TEST(IpcLink, HasNoMoreSlotsThanAnAreaMayHave) {
  EXPECT_EQ(with_parcels({}, 1).slots, 12u);
  EXPECT_EQ(with_parcels({}, 62).slots, 256u);
  EXPECT_EQ(with_parcels({}, SIZE_MAX).slots, 256u);
}

TEST(IpcLink, AReceiverClosesWhatItOpened) {
  Pair pair;
  pair.send({numbered(100, 1), numbered(200, 2)});
  pair.read();
  EXPECT_EQ(pair.upper->open_now, 6);
  pair.receiver.reset();
  EXPECT_EQ(pair.upper->open_now, 0);
}

/// A GPU that has failed refuses a stream too: no reason to end the process.
TEST(IpcLink, AReceiverClosesWhatItOpenedOnAGpuThatHasFailed) {
  Pair pair;
  pair.send({numbered(100, 1)});
  pair.read();
  pair.upper->refuses = true;
  pair.receiver.reset();
  EXPECT_EQ(pair.upper->open_now, 0);
}

TEST(IpcLink, ASenderIsToldThatItsReceiverIsGone) {
  Pair pair(2);
  pair.send({numbered(100, 1)});
  pair.read();
  pair.receiver.reset();
  EXPECT_THROW(for (int i = 0; i < 1000; ++i) pair.send({numbered(100, 2)}),
               PeerGoneError);
  pair.host.gpu.run_all();
}

TEST(IpcLink, WhatWasSentArrivesAfterItsSenderIsGone) {
  Pair pair;
  pair.send({numbered(100, 1)});
  pair.sender->close();
  pair.sender.reset();
  const std::vector<TensorView> received = pair.read();
  pair.host.gpu.run_all();
  EXPECT_TRUE(same(received[0], numbered(100, 1)));
  EXPECT_FALSE(pair.receiver->receive().has_value());
}

TEST(IpcLink, WhatTheReceiversGpuRefusesIsTheLinksFailure) {
  Pair pair;
  pair.send({numbered(100, 1)});
  pair.upper->refuses = true;
  EXPECT_THROW(pair.read(), LinkError);
}

TEST(IpcLink, WhatTheSendersGpuRefusesIsItsOwn) {
  Pair pair;
  pair.lower->refuses = true;
  EXPECT_THROW(pair.send({numbered(100, 1)}), InternalError);
}

TEST(IpcLink, TwoThreadsMayBeTheProcesses) {
  // Only the link is real here, and the stand-in is for one thread: so no GPU.
  Pair pair;
  std::jthread lower([&] {
    for (int i = 0; i < 100; ++i)
      pair.sender->send(message_of(counting_tensor(DType::int64, {9}, {1})));
  });
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(same(pair.receiver->receive()->tensors[0],
                     counting_tensor(DType::int64, {9}, {1})));
}

/// A parcel as a peer would send it that is hostile or confused.
class Parcels : public testing::Test {
 protected:
  /// What the receiver says of it.
  std::string answer_to(std::vector<std::byte> bytes) {
    const auto size = static_cast<std::int64_t>(bytes.size());
    TensorView tensor{.name = "ipc:h",
                      .dtype = DType::uint8,
                      .sizes = {size},
                      .strides = {1},
                      .buffer = allocate_buffer(bytes.size())};
    std::copy(bytes.begin(), bytes.end(), tensor.buffer.data);
    pair_.raw->send(message_of(tensor));
    try {
      pair_.receiver->receive();
    } catch (const LinkError& error) {
      return error.what();
    }
    return "";
  }
  std::string answer_to(const std::function<void(Parcel&)>& change) {
    return answer_to(bytes_of(change));
  }
  /// A good one otherwise.
  std::vector<std::byte> bytes_of(const std::function<void(Parcel&)>& change) {
    FakeProcess& lower = *pair_.lower;
    Parcel parcel{.device = lower.id(),
                  .memory = lower.handle_of_memory(lower.allocate(24)),
                  .ready = lower.handle_of_event(lower.make_event()),
                  .taken = lower.handle_of_event(lower.make_event()),
                  .bytes = 24,
                  .dtype = DType::float32,
                  .sizes = {2, 3},
                  .strides = {3, 1}};
    change(parcel);
    std::vector<std::byte> bytes(kParcelBytes);
    write_parcel(parcel, bytes);
    return bytes;
  }

  Pair pair_;
};

void nothing(Parcel& /*parcel*/) {}

TEST_F(Parcels, AreTakenAsTheyAreWritten) {
  EXPECT_EQ(answer_to(nothing), "");
}

TEST_F(Parcels, ParcelsOfAnotherLengthAreRefused) {
  std::vector<std::byte> bytes = bytes_of(nothing);
  bytes.pop_back();
  EXPECT_THAT(answer_to(bytes), HasSubstr("383 bytes; it has 384"));
  EXPECT_THAT(answer_to(std::vector<std::byte>()), HasSubstr("0 bytes"));
}

TEST_F(Parcels, WithAByteThatIsNothingAreRefused) {
  for (const std::size_t at : {0, 4, 5, 6, 7, 8, 351, 352, 383}) {
    std::vector<std::byte> bytes = bytes_of(nothing);
    bytes[at] = std::byte{0xCC};
    EXPECT_NE(answer_to(bytes), "") << at;
  }
}

TEST_F(Parcels, ParcelsOfAnotherNumberOfBytesThanTheirShapeAreRefused) {
  EXPECT_THAT(answer_to([](Parcel& parcel) { parcel.bytes = 28; }),
              HasSubstr("28 bytes of a tensor that has 24"));
  EXPECT_THAT(answer_to([](Parcel& parcel) {
                parcel.sizes = {2, 1 << 20};
              }),
              HasSubstr("not dense"));
  EXPECT_NE(answer_to([](Parcel& parcel) {
              parcel.sizes = {0, 3};
              parcel.bytes = 0;
            }),
            "");
}

TEST_F(Parcels, BeyondWhatAMessageMayHaveAreRefused) {
  EXPECT_THAT(answer_to([](Parcel& parcel) {
                parcel.sizes = {std::int64_t{1} << 40};
                parcel.strides = {1};
                parcel.bytes = std::uint64_t{4} << 40;
              }),
              HasSubstr("bytes of a tensor"));
  EXPECT_THAT(answer_to([](Parcel& parcel) {
                parcel.sizes = {std::int64_t{1} << 62, 1 << 10};
              }),
              HasSubstr("2^63"));
  EXPECT_THAT(answer_to([](Parcel& parcel) {
                parcel.sizes = {-1, 3};
              }),
              HasSubstr("negative"));
}

TEST_F(Parcels, ParcelsOfAnotherGpuThanTheNeighboursAreRefused) {
  EXPECT_THAT(
      answer_to([](Parcel& parcel) { parcel.device[3] = std::byte{1}; }),
      HasSubstr("another GPU"));
}

TEST_F(Parcels, WithHandlesOfNothingAreRefused) {
  for (IpcHandle Parcel::*const handle :
       {&Parcel::memory, &Parcel::ready, &Parcel::taken})
    EXPECT_THAT(answer_to([&](Parcel& parcel) {
                  (parcel.*handle).bytes.fill(std::byte{0x55});
                }),
                HasSubstr("invalid"));
}

TEST_F(Parcels, ParcelsOfEverNewMemoryAreRefusedAtSomeTime) {
  int taken = 0;
  while (taken < 10'000 && answer_to(nothing).empty()) ++taken;
  EXPECT_EQ(taken, 2048);  // two events each
}

}  // namespace sluice::ipc_link_test
