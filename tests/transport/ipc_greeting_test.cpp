// Two blocks on GPUs ask each other whether tensors may stay there: over a real
// link, with stand-ins for the GPUs.
#include "transport/shared/ipc_greeting.h"

#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/files/lock_holder.h"
#include "tests/transport/fake_gpu.h"
#include "tests/transport/links_under_test.h"

namespace sluice::ipc_greeting_test {

using namespace std::chrono_literals;
using testing::HasSubstr;

class IpcGreeting : public testing::Test {
 protected:
  IpcGreeting() {
    upper_.name = {std::byte{8}};
    lower_says_ = said_by(lower_);
    upper_says_ = said_by(upper_);
  }

  static IpcHello said_by(FakeProcess& process) {
    return {.boot = boot_id(),
            .device = process.id(),
            .memory = process.handle_of_memory(process.allocate(1))};
  }

  void greet() {
    std::jthread upper([this] {
      upper_hears_ = greet_over(ends_.upper, upper_says_, &upper_);
    });
    lower_hears_ = greet_over(ends_.lower, lower_says_, &lower_);
  }
  /// Both sides get this reason.
  void expect_none(const char* why) {
    greet();
    EXPECT_FALSE(lower_hears_.peer.has_value());
    EXPECT_FALSE(upper_hears_.peer.has_value());
    EXPECT_THAT(lower_hears_.why_not, HasSubstr(why));
    EXPECT_EQ(lower_hears_.why_not, upper_hears_.why_not);
  }

  FakeHost host_ = {.gpu = FakeGpu()};
  FakeProcess lower_{host_, 1};
  FakeProcess upper_{host_, 2};
  IpcHello lower_says_;
  IpcHello upper_says_;
  Ends ends_ = shared_memory_ends(1, 60s);
  IpcAgreement lower_hears_;
  IpcAgreement upper_hears_;
};

TEST_F(IpcGreeting, TellsEachTheOthersGpu) {
  greet();
  EXPECT_EQ(lower_hears_.peer, upper_.id());
  EXPECT_EQ(upper_hears_.peer, lower_.id());
  EXPECT_EQ(lower_hears_.why_not, "");
  EXPECT_EQ(lower_.opened, 1);
  EXPECT_EQ(lower_.open_now, 0);
}

TEST_F(IpcGreeting, LeavesTheLinkAsItWas) {
  greet();
  const TensorView tensor = counting_tensor(DType::float32, {3}, {1});
  ends_.lower.sender->send(message_of(tensor));
  EXPECT_TRUE(same(ends_.upper.receiver->receive()->tensors.at(0), tensor));
}

TEST_F(IpcGreeting, GreetingOfOneThatDoesNotWantReachesBoth) {
  upper_says_ = {.boot = boot_id(), .refusal = "cuda_ipc = false"};
  expect_none("cuda_ipc = false");
  EXPECT_EQ(lower_.opened, 0);
}

TEST_F(IpcGreeting, GreetingOfOneThatCanNotOpenTheOthersMemoryReachesBoth) {
  lower_says_.memory.bytes.fill(std::byte{0x55});
  expect_none("invalid resource handle");
}

TEST_F(IpcGreeting, GreetingOfGpusThatDoNotReachEachOtherReachesBoth) {
  lower_.reaches = false;
  expect_none("can't read the other's memory");
}

TEST_F(IpcGreeting, GreetingOfOneThatSharesItsGpuUnwillinglyReachesBoth) {
  upper_.name = lower_.name;
  upper_says_ = said_by(upper_);
  upper_says_.same_gpu_refusal = "they take turns";
  expect_none("they take turns");
}

TEST_F(IpcGreeting, WithAnotherGpuIgnoresWhatOneSaysOfItsOwn) {
  upper_says_.same_gpu_refusal = "they take turns";
  greet();
  EXPECT_EQ(lower_hears_.peer, upper_.id());
}

TEST_F(IpcGreeting, GreetingOfTwoHostsReachesBoth) {
  lower_says_.boot = "another";
  expect_none("two hosts");
}

TEST_F(IpcGreeting, ThatIsNoneIsTheLinksFailure) {
  ends_.upper.sender->send(
      message_of(counting_tensor(DType::float32, {3}, {1})));
  EXPECT_THROW(greet_over(ends_.lower, lower_says_, &lower_), LinkError);
}

TEST_F(IpcGreeting, IsReadAsItIsWritten) {
  const IpcHello read = decode_ipc_hello(encode_ipc_hello(lower_says_));
  EXPECT_EQ(read.boot, lower_says_.boot);
  EXPECT_EQ(read.device, lower_says_.device);
  EXPECT_EQ(read.memory, lower_says_.memory);
  EXPECT_EQ(read.refusal, "");
}

TEST_F(IpcGreeting, GreetingOfOtherBytesIsRefused) {
  const std::vector<std::byte> good = encode_ipc_hello(lower_says_);
  for (std::size_t bytes = 0; bytes + 8 <= good.size(); bytes += 7)
    EXPECT_THROW(decode_ipc_hello(std::span(good).first(bytes)), LinkError)
        << bytes;
  std::vector<std::byte> longer = good;
  longer.resize(good.size() + 8);
  EXPECT_THROW(decode_ipc_hello(longer), LinkError);
  std::vector<std::byte> other = good;
  other[0] ^= std::byte{1};
  EXPECT_THROW(decode_ipc_hello(other), LinkError);
}

}  // namespace sluice::ipc_greeting_test
