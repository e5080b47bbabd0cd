// The masks that CUDA draws against those of the CPU, bit for bit.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "lib/kernels/masks.h"
#ifdef SLUICE_CUDA
#include "tests/lib/kernels/on_gpu.h"
#endif

namespace sluice::cuda_masks_test {

TEST(CudaMasks, AreThereWhereTheyWereCompiled) {
#ifdef SLUICE_CUDA
  EXPECT_NE(cuda_mask_kernels(), nullptr);
#else
  EXPECT_EQ(cuda_mask_kernels(), nullptr);
#endif
}

#ifdef SLUICE_CUDA

/// Memory of a simulated GPU is none of CUDA's either.
TEST(CudaMasks, DoNotReachMemoryOfTheHost) {
  const std::vector<float> here(4);
  EXPECT_FALSE(cuda_mask_kernels()->reaches(here.data()));
  EXPECT_FALSE(cuda_mask_kernels()->reaches(nullptr));
}

class CudaMask : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU";
  }

  const MaskKernels& cpu = cpu_mask_kernels();
  const MaskKernels& cuda = *cuda_mask_kernels();
  const MaskRule rule = mask_rule(0.3, 0x0123'4567'89ab'cdef);
};

TEST_F(CudaMask, ReachesMemoryOfTheGpu) {
  const GpuArray<float> there(4);
  EXPECT_TRUE(cuda.reaches(there.data()));
}

TEST_F(CudaMask, HasTheBitsOfTheCpu) {
  for (const std::int64_t first :
       {std::int64_t{0}, std::int64_t{3}, (std::int64_t{4} << 32) - 333})
    for (const std::int64_t count : {1, 5, 1021, 3'000'000}) {
      std::vector<float> here(static_cast<std::size_t>(count));
      cpu.fill(rule, first, count, here.data(), nullptr);
      const GpuArray<float> there(here.size());
      cuda.fill(rule, first, count, there.data(), nullptr);
      EXPECT_TRUE(same_bits(there.fetched(), here)) << first << " " << count;
    }
}

TEST_F(CudaMask, WithChannelsLastHasTheBitsOfTheCpu) {
  for (const ChannelsLast& shape :
       {ChannelsLast{0, 3, 5, 35}, ChannelsLast{7, 2, 40, 1030},
        ChannelsLast{0, 64, 96, 784}}) {
    std::vector<float> here(static_cast<std::size_t>(
        shape.samples * shape.channels * shape.pixels));
    cpu.fill_channels_last(rule, shape, here.data(), nullptr);
    const GpuArray<float> there(here.size());
    cuda.fill_channels_last(rule, shape, there.data(), nullptr);
    EXPECT_TRUE(same_bits(there.fetched(), here)) << shape.channels;
  }
}

#else

TEST(CudaMasks, HaveTheBitsOfTheCpu) {
  GTEST_SKIP() << "built without nvcc";
}

#endif

}  // namespace sluice::cuda_masks_test
