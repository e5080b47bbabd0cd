// Memory of the device and pinned memory of the host.
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "lib/tensors/gpu/pinned_buffers.h"
#include "lib/tensors/gpu/staging.h"
#include "tests/simcuda/machine.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::memory_test {

using testing::ElementsAre;
using namespace std::chrono_literals;
using testing::HasSubstr;

/// What is copied in streams of its own.
constexpr std::int64_t kLarge = 2 * kSmallCopy / sizeof(float);

class Memory : public SimulatedGpu {};

TEST_F(Memory, TheHostCanNotTouchTheDevices) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(*static_cast<volatile float*>(at::ones({9}, kGpu).data_ptr()) = 1,
              testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(Memory, WhatNobodyWroteIsNoNumberOfSomebody) {
  at::ones({1000}, kGpu);
  EXPECT_FALSE(at::empty({1000}, kGpu).cpu().eq(1).any().item<bool>());
}

/// A tensor from the middle of pinned memory, which only it keeps.
at::Tensor from_the_middle(double value) {
  const at::Tensor whole = pinned(value, 2 * kLarge);
  return at::from_blob(
      static_cast<float*>(whole.data_ptr()) + kLarge, {kLarge},
      [whole](void*) {}, at::TensorOptions(at::kFloat));
}

/// LibTorch's allocator doesn't learn of a copy of a tensor that begins
/// elsewhere than the memory does.
TEST_F(Memory, PinnedMemoryReleasedUnderACopyFromItsMiddleIsReported) {
  at::Tensor source = from_the_middle(1);
  const at::Tensor there = source.to(kGpu, /*non_blocking=*/true);
  source.reset();
  EXPECT_THAT(take_reports(),
              ElementsAre(HasSubstr("pinned memory is released while a copy")));
}

TEST_F(Memory, StagingKeepsPinnedMemoryThatItCopiesFromTheMiddle) {
  at::Tensor source = from_the_middle(3);
  const at::Tensor there = on_device(source, kGpu);
  source.reset();
  EXPECT_TRUE(there.cpu().eq(3).all().item<bool>());
}

bool is_pinned(const Buffer& buffer) {
  const Lock lock(machine().mutex);
  return find_pinned(buffer.data) != nullptr;
}

TEST_F(Memory, BuffersArePinnedOnceTheirSizeIsKnown) {
  const BufferSource source = pinned_buffers(kGpu);
  EXPECT_FALSE(is_pinned(source(5000)));
  const auto until = std::chrono::steady_clock::now() + 1min;
  bool is_ready = false;
  while (!is_ready && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(1ms);
    is_ready = is_pinned(source(6000));  // of 8192, too
  }
  EXPECT_TRUE(is_ready);
  EXPECT_EQ(source(6000).bytes, 6000u);
}

/// Links take buffers in their event loop.
TEST_F(Memory, BuffersAreTakenWhileCudaIsBusy) {
  const BufferSource source = pinned_buffers(kGpu);
  std::unique_lock driver(machine().mutex);
  std::future<std::size_t> taken =
      std::async(std::launch::async, [&source] { return source(5000).bytes; });
  const bool is_taken = taken.wait_for(10s) == std::future_status::ready;
  driver.unlock();
  EXPECT_TRUE(is_taken);
  EXPECT_EQ(taken.get(), 5000u);
}

TEST_F(Memory, WhatIsLiveIsCounted) {
  const Counts before = counts();
  at::Tensor tensor = at::ones({1024}, kGpu);
  EXPECT_EQ(counts().live_bytes - before.live_bytes, 4096);
  EXPECT_GT(counts().launches, before.launches);
  tensor = at::Tensor();
  EXPECT_EQ(counts().live_bytes, before.live_bytes);
}

}  // namespace sluice::simcuda::memory_test
