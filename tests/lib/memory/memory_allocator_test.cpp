#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "lib/base/memory/account.h"
#include "lib/base/memory/blocks.h"
#include "lib/memory/allocator.h"

namespace sluice::memory_allocator_test {

// Runs `action` in a process of its own, where nothing is installed yet.
template <class Action>
void expect_in_new_process(Action action) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread is there.
  EXPECT_EXIT(std::exit(action() ? 0 : 1), testing::ExitedWithCode(0), "");
}

class Allocator : public testing::Test {
 protected:
  void SetUp() override {
    if (!install_allocator()) GTEST_SKIP() << "AddressSanitizer is there";
  }
};

// The weights of a small network after 50 steps.
at::Tensor trained_weights(std::uint64_t seed) {
  at::set_num_threads(1);
  torch::manual_seed(seed);
  torch::nn::Sequential net(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1)),
      torch::nn::BatchNorm2d(16), torch::nn::Flatten(),
      torch::nn::Linear(16 * 16 * 16, 10));
  for (int step = 0; step < 50; ++step) {
    const at::Tensor images = at::randn({32, 3, 16, 16});
    const at::Tensor labels = at::randint(10, {32}, at::kLong);
    at::cross_entropy_loss(net->forward(images), labels).backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor& weight : net->parameters()) {
      weight.sub_(weight.grad(), 0.05);
      weight.mutable_grad().zero_();
    }
  }
  std::vector<at::Tensor> weights;
  for (const at::Tensor& weight : net->parameters()) {
    weights.push_back(weight.detach().flatten());
  }
  return at::cat(weights);
}

// What `allocator` says when so much can't be had; its backtrace cut off.
std::string refusal(c10::Allocator& allocator, std::size_t bytes) {
  try {
    allocator.allocate(bytes);
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    // Before its words, LibTorch names the condition.
    const std::size_t start =
        std::min(text.find("DefaultCPUAllocator"), text.find("alloc_cpu() "));
    return start == std::string::npos ? text : text.substr(start);
  }
  return "";
}

TEST(FormerAllocator, IsReplacedOnce) {
  expect_in_new_process([] {
    if (allocator_installed()) return false;
    const bool done = install_allocator();
    return install_allocator() == done && allocator_installed() == done;
  });
}

TEST(FormerAllocator, GivesTheSameBits) {
  expect_in_new_process([] {
    const at::Tensor before = trained_weights(1);
    install_allocator();
    return at::equal(before, trained_weights(1)) &&
           !at::equal(before, trained_weights(2));
  });
}

TEST(FormerAllocator, FreesItsOwnTensors) {
  expect_in_new_process([] {
    at::Tensor small = at::ones({3});
    at::Tensor big = at::ones({1 << 20});
    install_allocator();
    big.resize_({1 << 21});
    return (small = at::Tensor(), big = at::ones({1})).item<float>() == 1;
  });
}

TEST(FormerAllocator, CountsNothing) {
  expect_in_new_process([] {
    const MemoryAccount account("block 1");
    const MemoryScope scope(account);
    return at::ones({100}).numel() == 100 && account.peak_bytes() == 0;
  });
}

// oneDNN's tensors hold raw memory and free it with the allocator of that
// moment.
TEST(FormerAllocator, GetsRawMemoryBackFromOneDnn) {
  if (!at::globalContext().hasMKLDNN()) GTEST_SKIP() << "no oneDNN";
  expect_in_new_process([] {
    at::Tensor blocked = at::ones({8, 8, 8, 8}).to_mkldnn();
    void* const raw = c10::GetCPUAllocator()->raw_allocate(1 << 24);
    install_allocator();
    blocked.reset();
    c10::GetCPUAllocator()->raw_deallocate(raw);
    return true;
  });
}

TEST(FormerAllocator, MayBeReplacedByOneWhoseTensorsOutliveMain) {
  expect_in_new_process([] {
    install_allocator();
    static at::Tensor early = at::ones({1 << 20});
    static std::vector<at::Tensor> late(3, at::ones({1 << 20}));
    static thread_local at::Tensor of_thread = at::ones({1 << 20});
    return early.defined() && of_thread.defined();
  });
}

TEST_F(Allocator, AlignsTensors) {
  for (std::int64_t size = 1; size < 10'000'000; size = size * 2 + 1) {
    const at::Tensor tensor = at::empty({size});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0u);
  }
}

TEST_F(Allocator, GivesNullForNothingLikeLibTorchs) {
  EXPECT_EQ(c10::GetCPUAllocator()->allocate(0).get(), nullptr);
  EXPECT_EQ(c10::GetDefaultCPUAllocator()->allocate(0).get(), nullptr);
  EXPECT_EQ(at::empty({0}).numel(), 0);
}

TEST_F(Allocator, RefusesInLibTorchsWords) {
  for (const std::size_t bytes : {std::size_t{1} << 46, std::size_t{1} << 55}) {
    const std::string text = refusal(*c10::GetCPUAllocator(), bytes);
    EXPECT_EQ(text, refusal(*c10::GetDefaultCPUAllocator(), bytes));
    EXPECT_NE(text.find(std::to_string(bytes)), std::string::npos);
  }
  const auto negative = static_cast<std::size_t>(-8);
  const std::string text = refusal(*c10::GetCPUAllocator(), negative);
  EXPECT_EQ(text, refusal(*c10::GetDefaultCPUAllocator(), negative));
  EXPECT_NE(text.find("negative number"), std::string::npos);
}

TEST_F(Allocator, GivesRawMemory) {
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  void* const raw = allocator.raw_allocate(100);
  ASSERT_NE(raw, nullptr);
  allocator.raw_deallocate(raw);
  EXPECT_EQ(allocator.raw_allocate(100), raw);
}

TEST_F(Allocator, ClonesMemory) {
  const at::Tensor numbers = at::ones({5});
  const c10::DataPtr copy =
      c10::GetCPUAllocator()->clone(numbers.data_ptr(), numbers.nbytes());
  EXPECT_NE(copy.get(), numbers.data_ptr());
  EXPECT_EQ(static_cast<const float*>(copy.get())[4], 1);
}

TEST_F(Allocator, LeavesStoragesOfOthersAlone) {
  float numbers[] = {1, 2, 3};
  bool is_released = false;
  at::from_blob(numbers, {3}, [&](void*) { is_released = true; }).sum();
  EXPECT_TRUE(is_released);
}

TEST_F(Allocator, ResizesTensors) {
  const at::Tensor numbers = at::ones({10});
  numbers.resize_({1'000'000}).narrow(0, 10, 999'990).fill_(2);
  EXPECT_EQ(numbers.sum().item<float>(), 10 + 2 * 999'990);
}

TEST_F(Allocator, ServesOneDnn) {
  if (!at::globalContext().hasMKLDNN()) GTEST_SKIP() << "no oneDNN";
  const MemoryAccount account("block 1");
  const MemoryScope scope(account);
  const at::Tensor blocked = at::ones({1000}).to_mkldnn();
  EXPECT_GE(account.live_bytes(), 4000u);
}

TEST_F(Allocator, ChargesTensorsToTheAccount) {
  const MemoryAccount account("block 1");
  at::Tensor kept;
  {
    const MemoryScope scope(account);
    kept = at::ones({1000});
    at::ones({500});
  }
  EXPECT_EQ(account.live_bytes(), 4000u);
  EXPECT_EQ(account.peak_bytes(), 6000u);
  std::thread([tensor = std::move(kept)]() mutable { tensor.reset(); }).join();
  EXPECT_EQ(account.live_bytes(), 0u);
}

TEST_F(Allocator, ChargesTheGraphAndItsGradients) {
  const MemoryAccount account("block 1");
  const MemoryScope scope(account);
  const at::Tensor weight = at::ones({1000}).requires_grad_();
  {
    // tanh() keeps its result for its backward.
    const at::Tensor output = weight.tanh().sum();
    EXPECT_EQ(account.live_bytes(), 8000u + 4u);
    output.backward();
  }
  EXPECT_EQ(account.live_bytes(), 8000u);  // the weight and its gradient
  EXPECT_GE(account.peak_bytes(), 12000u);
}

}  // namespace sluice::memory_allocator_test
