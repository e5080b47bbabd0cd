// Masks of dropouts on the simulated GPU: drawn there, in one launch.
#include <cstdint>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/tensors/gpu/cuda_ipc.h"
#include "lib/tensors/philox_mask.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::masks_test {

class MasksThere : public SimulatedGpu {
 protected:
  void SetUp() override {
    SimulatedGpu::SetUp();
    if (!has_cuda_ipc(kGpu))
      GTEST_SKIP() << "built with nvcc, whose kernels don't run here";
  }
};

std::int64_t copies() {
  const Counts now = counts();
  return now.pinned_to_device + now.pageable_to_device + now.device_to_pinned +
         now.device_to_pageable + now.between_devices;
}

TEST_F(MasksThere, AreOneLaunchWithoutACopyOrAWait) {
  const at::Tensor mask = at::empty({8, 16, 4, 4}, kGpu);
  const std::int64_t launches = counts().launches;
  const std::int64_t before = copies();
  const std::int64_t waits = waits_of_this_thread();
  fill_philox_mask(mask, 0.3, 7);
  EXPECT_EQ(counts().launches, launches + 1);
  EXPECT_EQ(copies(), before);
  EXPECT_EQ(waits_of_this_thread(), waits);
}

TEST_F(MasksThere, HaveTheBitsOfTheCpuAndOfTheirKey) {
  const at::Tensor here =
      at::empty({8, 16, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor there = at::empty_strided(
      here.sizes(), here.strides(), at::TensorOptions(at::kFloat).device(kGpu));
  fill_philox_mask(here, 0.3, 7);
  fill_philox_mask(there, 0.3, 7);
  EXPECT_TRUE(there.cpu().equal(here));
  fill_philox_mask(there, 0.3, 8);
  EXPECT_FALSE(there.cpu().equal(here));
}

}  // namespace sluice::simcuda::masks_test
