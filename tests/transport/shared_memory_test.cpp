// What links over shared memory promise beyond the contract of every link
// (channel_contract_test.cpp): copies, slots, who moves bytes when.
#include "transport/shared/shared_memory.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/transport/links_under_test.h"

namespace sluice::shared_memory_test {

using namespace std::chrono_literals;

constexpr Deadline kPatient = 60s;
constexpr std::size_t kSlotBytes = std::size_t{64} << 10;

Ends ends_with_slots(std::size_t slots, std::size_t capacity = 4) {
  LinkOptions options = test_options(capacity, kPatient);
  options.shared_memory.slots = slots;
  options.shared_memory.slot_bytes = kSlotBytes;
  return ends_of(open_shared_link, options);
}

// A tensor of 1000 bytes in memory of `source`.
TensorView tensor_from(const BufferSource& source) {
  TensorView tensor = counting_tensor(DType::uint8, {1000}, {1});
  Buffer buffer = source(tensor.buffer.bytes);
  std::memcpy(buffer.data, tensor.buffer.data, tensor.buffer.bytes);
  tensor.buffer = std::move(buffer);
  return tensor;
}

std::uint64_t copied(const Ends& ends) {
  return copied_bytes(*ends.lower.sender) + copied_bytes(*ends.upper.receiver);
}

TensorView passed(Ends& ends, const TensorView& tensor) {
  ends.lower.sender->send(message_of(tensor));
  return ends.upper.receiver->receive()->tensors.at(0);
}

TEST(SharedMemory, CopiesTwiceThroughTheRing) {
  Ends ends = shared_memory_ends(1, kPatient);
  const TensorView big = counting_tensor(DType::uint8, {3'000'000}, {1});
  EXPECT_TRUE(same(passed(ends, big), big));
  EXPECT_EQ(copied(ends), 2u * 3'000'000u);
}

TEST(SharedMemory, CopiesNothingFromSlots) {
  Ends ends = ends_with_slots(2);
  const TensorView tensor = tensor_from(slots_of(*ends.lower.sender));
  EXPECT_TRUE(same(passed(ends, tensor), tensor));
  EXPECT_EQ(copied(ends), 0u);
}

TEST(SharedMemory, SomeSlotsOnlyMayBeAskedFor) {
  Ends ends = ends_with_slots(3);
  const BufferSource free = free_slots_of(*ends.lower.sender, 2);
  const Buffer first = free(1000);
  Buffer second = free(1000);
  EXPECT_NE(first.data, nullptr);
  EXPECT_NE(second.data, nullptr);
  EXPECT_EQ(free(1000).data, nullptr);
  second = {};
  EXPECT_NE(free(1000).data, nullptr);
  EXPECT_EQ(free(kSlotBytes + 1).data, nullptr);
}

Ends ends_with_pages_on_demand() {
  LinkOptions options = test_options(4, kPatient);
  options.shared_memory = {
      .slots = 3, .slot_bytes = kSlotBytes, .slots_on_demand = true};
  return ends_of(open_shared_link, options);
}

/// The memory that a driver knows, of both ends, until it is unmapped.
TEST(SharedMemory, PinsTheSlotsThatItSendsAndReceivesIn) {
  std::optional<Ends> both = ends_with_pages_on_demand();
  Ends& ends = *both;
  const auto pins = std::make_shared<int>(0);
  std::vector<std::span<std::byte>> pinned;
  const PinMemory pin = [&](std::span<std::byte> memory, std::string&) {
    pinned.push_back(memory);
    return pins;
  };
  passed(ends, tensor_from(allocate_buffer));  // the ends have met
  EXPECT_EQ(pin_slots(*ends.lower.sender, 2, pin), "");
  EXPECT_EQ(pin_slots(*ends.upper.receiver, 2, pin), "");
  ASSERT_EQ(pinned.size(), 2u);
  EXPECT_EQ(pinned[0].size(), 2 * kSlotBytes);
  EXPECT_EQ(pinned[1].size(), 2 * kSlotBytes);
  TensorView received =
      passed(ends, tensor_from(free_slots_of(*ends.lower.sender, 2)));
  EXPECT_EQ(received.buffer.data, pinned[1].data());
  EXPECT_EQ(copied(ends), 2u * 1000u);  // what came before
  EXPECT_EQ(pins.use_count(), 3);
  both.reset();
  // The tensor keeps the memory that it lies in, and who pins it.
  EXPECT_EQ(received.buffer.data[9], std::byte{9});
  EXPECT_EQ(pins.use_count(), 2);
  received = {};
  EXPECT_EQ(pins.use_count(), 1);
}

TEST(SharedMemory, SaysWhySlotsAreNotPinned) {
  Ends ends = ends_with_pages_on_demand();
  const PinMemory refuse = [](std::span<std::byte>, std::string& why) {
    why = "the driver is out of memory";
    return nullptr;
  };
  EXPECT_EQ(pin_slots(*ends.lower.sender, 2, refuse),
            "the driver is out of memory");
  Ends without = shared_memory_ends(1, kPatient);
  EXPECT_EQ(pin_slots(*without.lower.sender, 2, refuse),
            "the link has no slots");
}

/// For receivers that can't use tensors where they lie.
TEST(SharedMemory, CopiesOutOfSlotsAndGivesThemBack) {
  Ends ends = ends_with_slots(1);
  passed(ends, tensor_from(allocate_buffer));
  const std::span<const std::byte> slots =
      memory_of_slots(*ends.upper.receiver);
  int copies = 0;
  ends.upper.receiver = out_of_slots(std::move(ends.upper.receiver), slots,
                                     [&copies](std::size_t bytes) {
                                       ++copies;
                                       return allocate_buffer(bytes);
                                     });
  const BufferSource free = free_slots_of(*ends.lower.sender, 1);
  const TensorView sent = tensor_from(free);
  const TensorView received = passed(ends, sent);
  EXPECT_TRUE(same(received, sent));
  EXPECT_EQ(copies, 1);
  EXPECT_TRUE(same(passed(ends, tensor_from(allocate_buffer)), sent));
  EXPECT_EQ(copies, 1);  // it lay in no slot
}

TEST(SharedMemory, CopiesWhatIsInNoSlot) {
  Ends ends = ends_with_slots(2);
  const TensorView tensor = tensor_from(allocate_buffer);
  EXPECT_TRUE(same(passed(ends, tensor), tensor));
  EXPECT_EQ(copied(ends), 2u * 1000u);
}

TEST(SharedMemory, CarriesMessagesOfBothKindsOfTensors) {
  Ends ends = ends_with_slots(2);
  Message sent = message_of(tensor_from(allocate_buffer));
  sent.tensors.push_back(tensor_from(slots_of(*ends.lower.sender)));
  sent.tensors.push_back(tensor_from(allocate_buffer));
  ends.lower.sender->send(sent);
  const Message message = *ends.upper.receiver->receive();
  ASSERT_EQ(message.tensors.size(), 3u);
  EXPECT_TRUE(same(message.tensors[0], sent.tensors[0]));
  EXPECT_TRUE(same(message.tensors[1], sent.tensors[1]));
  EXPECT_TRUE(same(message.tensors[2], sent.tensors[2]));
  EXPECT_EQ(copied(ends), 2u * 2000u);
}

TEST(SharedMemory, ReceivesTheSlotItself) {
  Ends ends = ends_with_slots(1);
  TensorView tensor = tensor_from(slots_of(*ends.lower.sender));
  const TensorView received = passed(ends, tensor);
  tensor.buffer.data[0] = std::byte{200};  // which no sender may do
  EXPECT_EQ(received.buffer.data[0], std::byte{200});
}

TEST(SharedMemory, GetsASlotBackWhenTheReceiverLetsItGo) {
  Ends ends = ends_with_slots(1);
  const BufferSource slots = slots_of(*ends.lower.sender);
  TensorView received = passed(ends, tensor_from(slots));
  ASSERT_EQ(copied(ends), 0u);
  EXPECT_TRUE(same(passed(ends, tensor_from(slots)), received));
  EXPECT_EQ(copied(ends), 2u * 1000u);  // the only slot is in use
  received = {};
  passed(ends, tensor_from(slots));
  EXPECT_EQ(copied(ends), 2u * 1000u);
}

TEST(SharedMemory, GetsSlotsBackThatNobodyRead) {
  Ends ends = ends_with_slots(1);
  const BufferSource slots = slots_of(*ends.lower.sender);
  std::byte* const slot = slots(1).data;
  ends.lower.sender->send(message_of(tensor_from(slots)));
  EXPECT_NE(slots(1).data, slot);
  while (!ends.upper.receiver->ready()) std::this_thread::yield();
  ends.upper.receiver.reset();
  EXPECT_EQ(slots(1).data, slot);
}

TEST(SharedMemory, BuffersOutliveTheLink) {
  TensorView tensor;
  TensorView received;
  {
    Ends ends = ends_with_slots(1);
    tensor = tensor_from(slots_of(*ends.lower.sender));
    received = passed(ends, tensor);
  }
  EXPECT_TRUE(same(received, tensor));
}

TEST(SharedMemory, SendersOfOtherKindsHaveNoSlots) {
  Ends ends = unix_ends(1, kPatient);
  const TensorView tensor = tensor_from(slots_of(*ends.lower.sender));
  EXPECT_TRUE(same(passed(ends, tensor), tensor));
  EXPECT_EQ(copied(ends), 0u);
}

// The receiver's thread may be computing meanwhile.
TEST(SharedMemory, CarriesMoreThanTheRingThoughNobodyReceives) {
  Ends ends = shared_memory_ends(2, kPatient);
  const TensorView big = counting_tensor(DType::uint8, {8 << 20}, {1});
  ends.lower.sender->send(message_of(big));
  ends.lower.sender->send(message_of(big));
  ends.lower.sender->close();
  ends.lower = {};
  ends.lower_io.reset();  // returns when all is written
  EXPECT_TRUE(same(ends.upper.receiver->receive()->tensors.at(0), big));
  EXPECT_TRUE(same(ends.upper.receiver->receive()->tensors.at(0), big));
  EXPECT_FALSE(ends.upper.receiver->receive().has_value());
}

TEST(SharedMemory, IsRefusedWithARingThatCantBe) {
  LinkOptions options = test_options(1, kPatient);
  options.shared_memory.ring_bytes = 1000;
  EXPECT_THROW(ends_of(open_shared_link, options), UserError);
}

int hand_overs() {
  const char* const asked = std::getenv("SLUICE_TEST_HAND_OVERS");
  return asked == nullptr ? 5'000 : std::stoi(asked);
}

// Both ends of both sides wait, each in a thread of its own, and the I/O
// threads are there too: a thread that wakes must leave no other asleep.
void exchange(std::chrono::microseconds spin, std::size_t capacity) {
  LinkOptions options = test_options(capacity, kPatient);
  options.shared_memory.spin = spin;
  Ends ends = ends_of(open_shared_link, options);
  const int count = hand_overs();
  const auto send = [count](Sender& sender) {
    for (int i = 0; i < count; ++i) sender.send({.batch = i});
    sender.close();
  };
  const auto receive = [](Receiver& receiver) {
    int next = 0;
    while (const auto message = receiver.receive()) {
      if (message->batch != next++) return -1;
    }
    return next;
  };
  int lower = 0;
  int upper = 0;
  std::thread a(send, std::ref(*ends.lower.sender));
  std::thread b(send, std::ref(*ends.upper.sender));
  std::thread c([&] { lower = receive(*ends.lower.receiver); });
  upper = receive(*ends.upper.receiver);
  a.join();
  b.join();
  c.join();
  EXPECT_EQ(lower, count);
  EXPECT_EQ(upper, count);
}

TEST(SharedMemoryStress, LosesNoWakeUpWithoutSpinning) {
  exchange(0us, 1);
}

TEST(SharedMemoryStress, LosesNoWakeUpWithSpinning) {
  exchange(20us, 1);
}

TEST(SharedMemoryStress, LosesNoWakeUpWithSeveralCredits) {
  exchange(1us, 3);
}

// Messages of several times the ring, so that its ends sleep for room too.
TEST(SharedMemoryStress, LosesNoWakeUpForRoom) {
  LinkOptions options = test_options(2, kPatient);
  options.shared_memory.ring_bytes = std::size_t{64} << 10;
  Ends ends = ends_of(open_shared_link, options);
  const TensorView big = counting_tensor(DType::uint8, {200'000}, {1});
  const int count = hand_overs() / 20;
  const auto exchange_all = [&](Link& link) {
    int good = 0;
    for (int i = 0; i < count; ++i) {
      link.sender->send(message_of(big));
      good += same(link.receiver->receive()->tensors.at(0), big);
    }
    return good;
  };
  int upper = 0;
  std::thread other([&] { upper = exchange_all(ends.upper); });
  const int lower = exchange_all(ends.lower);
  other.join();
  EXPECT_EQ(lower, count);
  EXPECT_EQ(upper, count);
}

}  // namespace sluice::shared_memory_test
