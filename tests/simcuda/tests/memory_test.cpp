// Memory of the device and pinned memory of the host.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "lib/tensors/pack.h"
#include "lib/tensors/staging.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::memory_test {

using testing::ElementsAre;
using testing::HasSubstr;

class Memory : public Simulated {};

TEST_F(Memory, TheHostCanNotTouchTheDevices) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(*static_cast<volatile float*>(at::ones({9}, kGpu).data_ptr()) = 1,
              testing::KilledBySignal(SIGSEGV), "");
}

TEST_F(Memory, WhatNobodyWroteIsNoNumberOfSomebody) {
  at::ones({1000}, kGpu);
  EXPECT_FALSE(at::empty({1000}, kGpu).cpu().eq(1).any().item<bool>());
}

/// LibTorch's allocator isn't told of a copy of a tensor that begins elsewhere
/// than the memory does.
TEST_F(Memory, PinnedMemoryReleasedUnderACopyFromItsMiddleIsReported) {
  Buffer buffer = pinned_buffers()(8000);
  TensorView view{
      .name = "x", .sizes = {1000}, .strides = {1}, .buffer = buffer};
  view.buffer.data += 4000;
  view.buffer.bytes = 4000;
  buffer = {};
  const at::Tensor there = on_device(tensor_of(view), kGpu);
  view = {};
  EXPECT_THAT(take_reports(),
              ElementsAre(HasSubstr("pinned memory is released while a copy")));
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
