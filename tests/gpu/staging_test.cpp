// Copies between a GPU and the host, in streams of their own.
#include "lib/tensors/gpu/staging.h"

#include <chrono>
#include <cstdio>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include "lib/boundaries/codecs/coded.h"
#include "lib/tensors/device.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "lib/tensors/pack.h"

namespace sluice::staging_test {

const c10::Device kGpu(c10::DeviceType::CUDA, 0);

class Staging : public testing::Test {
 protected:
  void SetUp() override {
    if (count_gpus() == 0) GTEST_SKIP() << "no GPU";
  }
};

at::Tensor numbers(at::IntArrayRef sizes) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(1));
}

TEST_F(Staging, ThereAndBackKeepsValuesAndStrides) {
  const at::Tensor maps =
      numbers({4, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor there = on_device(maps, kGpu);
  EXPECT_EQ(there.device(), kGpu);
  EXPECT_EQ(there.strides(), maps.strides());
  const HostCopy back = copy_to_host(there);
  back.wait();
  EXPECT_TRUE(back.tensor.is_pinned());
  EXPECT_EQ(back.tensor.strides(), maps.strides());
  EXPECT_TRUE(back.tensor.equal(maps));
}

TEST_F(Staging, WhatIsThereAlreadyStays) {
  const at::Tensor tensor = numbers({3});
  EXPECT_TRUE(on_device(tensor, c10::DeviceType::CPU).is_same(tensor));
  EXPECT_FALSE(on_device(at::Tensor(), kGpu).defined());
}

TEST_F(Staging, AMessageOfAGpuStaysThereAndIsReadOnTheHostToo) {
  Message message;
  const Tensors sent = {on_device(numbers({6, 7}), kGpu)};
  pack(sent, "h", nullptr, message);
  EXPECT_TRUE(unpack(message, "h", nullptr).at(0).equal(numbers({6, 7})));
  const at::Tensor received = unpack(message, "h", nullptr, kGpu).at(0);
  EXPECT_EQ(received.const_data_ptr(), sent[0].const_data_ptr());
  EXPECT_TRUE(received.equal(sent[0]));
}

TEST_F(Staging, AStagedMessageKeepsStridesThereAndBack) {
  for (const at::Tensor& tensor :
       {numbers({6, 7}), numbers({6, 1}).expand({6, 9}),
        numbers({4, 3, 5, 5}).contiguous(at::MemoryFormat::ChannelsLast),
        numbers({0, 3})}) {
    const at::Tensor there = on_device(tensor, kGpu);
    EXPECT_EQ(there.strides(), tensor.strides());
    const TensorView view = staged(view_of(there, "h"));
    EXPECT_EQ(view.buffer.device, Device());
    const at::Tensor host = tensor_of(view);
    EXPECT_TRUE(host.is_cpu());
    EXPECT_EQ(host.strides(), tensor.strides());
    EXPECT_TRUE(host.equal(tensor));
  }
}

/// The copy of what is computed sees the result, and what is computed after it
/// does not change it.
TEST_F(Staging, CopiesComeBetweenWhatIsComputedBeforeAndAfter) {
  at::Tensor sum = on_device(at::zeros({1 << 22}), kGpu);
  for (int i = 0; i < 200; ++i) sum = sum + 1;
  const HostCopy copy = copy_to_host(sum);
  sum = at::Tensor();
  for (int i = 0; i < 50; ++i)
    at::full({1 << 22}, -1.0, at::TensorOptions(kGpu));
  copy.wait();
  EXPECT_EQ(copy.tensor.min().item<float>(), 200);
  EXPECT_EQ(copy.tensor.max().item<float>(), 200);
}

/// Milliseconds on the GPU for what `work` starts.
template <class Work>
double milliseconds(const Work& work) {
  const c10::impl::VirtualGuardImpl guard(kGpu.type());
  const auto start = std::chrono::steady_clock::now();
  work();
  guard.synchronizeDevice(kGpu.index());
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - start)
      .count();
}

TEST_F(Staging, CopiesOverlapWithWhatIsComputedAfterThem) {
  const at::Tensor left = on_device(numbers({4096, 4096}), kGpu);
  const at::Tensor sent = on_device(at::zeros({1 << 26}), kGpu);  // 256 MiB
  const auto compute = [&] {
    at::Tensor product = left;
    for (int i = 0; i < 8; ++i) product = at::mm(product, left);
  };
  HostCopy copy = copy_to_host(sent);  // pins the memory
  compute();
  copy.wait();
  copy = {};
  const double computing = milliseconds(compute);
  const double copying = milliseconds([&] { copy = copy_to_host(sent); });
  copy = {};
  const double both = milliseconds([&] {
    copy = copy_to_host(sent);
    compute();
  });
  std::printf("compute %.2f ms, copy %.2f ms, both %.2f ms\n", computing,
              copying, both);
  EXPECT_LT(both, 0.8 * (computing + copying));
}

}  // namespace sluice::staging_test
