// Memory of the program that CUDA pins: shared memory, through which tensors go
// from process to process.
#include "lib/tensors/gpu/registered_memory.h"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "lib/kernels/cuda_host_memory.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/pack.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::registered_memory_test {

using testing::ElementsAre;
using testing::HasSubstr;

/// What is copied in streams of its own.
constexpr std::int64_t kLarge = 2 * kSmallCopy / sizeof(float);

class RegisteredMemory : public SimulatedGpu {
 protected:
  void SetUp() override {
    SimulatedGpu::SetUp();
    if (!can_register_memory(kGpu)) GTEST_SKIP() << "built with nvcc";
    // Before, LibTorch takes no memory for pinned.
    at::empty({1}, at::TensorOptions(kGpu));
  }

  std::span<std::byte> memory(std::size_t start, std::size_t bytes) const {
    return {memory_->data() + start, bytes};
  }
  std::span<std::byte> all() const { return memory(0, memory_->size()); }
  /// Tensor that alone holds the memory.
  at::Tensor tensor_there(double value) const {
    at::Tensor tensor = at::from_blob(
        memory_->data(), {kLarge}, [keep = memory_](void*) {},
        at::TensorOptions(at::kFloat));
    tensor.fill_(value);
    return tensor;
  }
  std::shared_ptr<void> registered(std::span<std::byte> bytes) {
    return registered_memory(kGpu, bytes, why_);
  }

  std::shared_ptr<std::vector<std::byte>> memory_ =
      std::make_shared<std::vector<std::byte>>(4 * kSmallCopy);
  std::string why_;
};

TEST_F(RegisteredMemory, IsPinnedAsLongAsItIsKept) {
  const at::Tensor there = tensor_there(1);
  EXPECT_FALSE(there.is_pinned());
  std::shared_ptr<void> kept = registered(all());
  EXPECT_EQ(why_, "");
  EXPECT_TRUE(there.is_pinned());
  kept.reset();
  EXPECT_FALSE(there.is_pinned());
}

TEST_F(RegisteredMemory, IsRefusedWhereSomeOfItIsRegistered) {
  const auto kept = registered(memory(4096, 4096));
  EXPECT_TRUE(kept);
  EXPECT_FALSE(registered(memory(0, 4097)));
  EXPECT_THAT(why_, HasSubstr("already mapped"));
  EXPECT_FALSE(registered(memory(8191, 1)));
  EXPECT_TRUE(registered(memory(8192, 4096)));
  EXPECT_TRUE(registered(memory(0, 4096)));
}

TEST_F(RegisteredMemory, RegisteredMemoryOfNoBytesIsRefused) {
  EXPECT_FALSE(registered({}));
  EXPECT_THAT(why_, HasSubstr("invalid argument"));
}

/// As by the limit of a container.
TEST_F(RegisteredMemory, BeyondALimitIsRefused) {
  ::setenv("SIMCUDA_PINNED", "5000", 1);  // NOLINT(concurrency-mt-unsafe)
  const auto first = registered(memory(0, 4096));
  const auto second = registered(memory(4096, 4096));
  ::unsetenv("SIMCUDA_PINNED");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_TRUE(first);
  EXPECT_FALSE(second);
  EXPECT_THAT(why_, HasSubstr("out of memory"));
}

/// Nor is its error left for LibTorch to find.
TEST_F(RegisteredMemory, ThatIsNotCanNotBeUnregistered) {
  cuda_host_memory()->unpin(0, memory_->data());
  EXPECT_EQ(at::ones({3}, kGpu).cpu().sum().item<float>(), 3);
}

TEST_F(RegisteredMemory, IsCopiedFromBesideTheHost) {
  const at::Tensor there = tensor_there(3);
  const auto count = [&] {
    const Counts before = counts();
    const bool is_right = on_device(there, kGpu).cpu().eq(3).all().item<bool>();
    EXPECT_TRUE(is_right);
    return std::pair(counts().pinned_to_device - before.pinned_to_device,
                     counts().pageable_to_device - before.pageable_to_device);
  };
  EXPECT_EQ(count(), std::pair(std::int64_t{0}, std::int64_t{1}));
  const auto kept = registered(all());
  EXPECT_EQ(count(), std::pair(std::int64_t{1}, std::int64_t{0}));
}

/// The simulated GPU reads it as late as may be.
TEST_F(RegisteredMemory, StaysWhileItIsCopiedFrom) {
  const std::weak_ptr<std::vector<std::byte>> watched = memory_;
  std::shared_ptr<void> kept = registered(all());
  at::Tensor source = tensor_there(3);
  memory_.reset();
  const at::Tensor copy = on_device(source, kGpu);
  source.reset();
  EXPECT_FALSE(watched.expired());
  EXPECT_TRUE(copy.cpu().eq(3).all().item<bool>());
  kept.reset();  // no copy uses it any more, or that would be reported
  memory_ = std::make_shared<std::vector<std::byte>>(4 * kSmallCopy);
  const auto other = registered(all());
  // A copy looks for copies that are done, those of earlier tests too.
  for (int i = 0; i < 100 && !watched.expired(); ++i)
    on_device(tensor_there(4), kGpu).cpu();
  EXPECT_TRUE(watched.expired());
}

TEST_F(RegisteredMemory, UnregisteredUnderACopyIsReported) {
  std::shared_ptr<void> kept = registered(all());
  const at::Tensor copy = tensor_there(3).to(kGpu, /*non_blocking=*/true);
  kept.reset();
  EXPECT_THAT(take_reports(),
              ElementsAre(HasSubstr("pinned memory is unregistered while")));
}

TEST_F(RegisteredMemory, TakesWhatLeavesAGpu) {
  const auto kept = registered(all());
  const BufferSource slots = [this](std::size_t bytes) {
    return Buffer{.data = memory_->data(), .bytes = bytes, .owner = memory_};
  };
  const Counts before = counts();
  const TensorView view =
      staged(view_of(at::full({kLarge}, 5.0, kGpu), "h"), slots);
  EXPECT_EQ(view.buffer.data, memory_->data());
  EXPECT_EQ(view.buffer.device, Device{});
  ASSERT_TRUE(view.buffer.wait_ready);
  EXPECT_TRUE(tensor_of(view).eq(5).all().item<bool>());  // waits for it
  EXPECT_EQ(counts().device_to_pinned - before.device_to_pinned, 1);
  EXPECT_EQ(counts().pinned_allocations, before.pinned_allocations);
}

/// The slot stays taken until the copy has completed.
TEST_F(RegisteredMemory, ThatACopyFillsStaysUntilThatIsThere) {
  const std::weak_ptr<std::vector<std::byte>> watched = memory_;
  std::shared_ptr<void> kept = registered(all());
  Buffer slot{.data = memory_->data(),
              .bytes = kLarge * sizeof(float),
              .owner = std::move(memory_)};
  const BufferSource slots = [&slot](std::size_t) { return std::move(slot); };
  {
    const TensorView dropped =
        staged(view_of(at::full({kLarge}, 5.0, kGpu), "h"), slots);
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
  kept.reset();  // no copy uses it any more, or that would be reported
  EXPECT_EQ(take_reports(), std::vector<std::string>());
}

/// Such tensors go by other memory, as without registered memory.
TEST_F(RegisteredMemory, IsNotTakenBySmallTensorsOrWhereNoneIsLeft) {
  const Counts before = counts();
  int asked = 0;
  const BufferSource none = [&asked](std::size_t) {
    ++asked;
    return Buffer();
  };
  const TensorView small = staged(view_of(at::full({9}, 5.0, kGpu), "h"), none);
  EXPECT_EQ(asked, 0);
  const TensorView large =
      staged(view_of(at::full({kLarge}, 5.0, kGpu), "h"), none);
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(tensor_of(small).eq(5).all().item<bool>());
  EXPECT_TRUE(tensor_of(large).eq(5).all().item<bool>());
  EXPECT_EQ(counts().pinned_allocations - before.pinned_allocations, 2);
}

}  // namespace sluice::simcuda::registered_memory_test
