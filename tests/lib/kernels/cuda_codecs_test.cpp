// The loops of CUDA against those of the CPU, bit for bit.
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "lib/kernels/codecs.h"
#include "tests/lib/kernels/numbers.h"
#ifdef SLUICE_CUDA
#include "tests/lib/kernels/on_gpu.h"
#endif

namespace sluice::cuda_codecs_test {

TEST(CudaCodecs, AreThereWhereTheyWereCompiled) {
#ifdef SLUICE_CUDA
  EXPECT_NE(cuda_codec_kernels(), nullptr);
#else
  EXPECT_EQ(cuda_codec_kernels(), nullptr);
#endif
}

#ifdef SLUICE_CUDA

constexpr std::int64_t kRows = 37;
constexpr std::int64_t kLength = 1009;
constexpr auto kCount = static_cast<std::size_t>(kRows * kLength);

/// All sizes, with what is no number in the second row.
std::vector<float> values_of(std::uint64_t seed) {
  std::vector<float> values = numbers_of_all_sizes(seed, kCount, 1e6);
  values[kLength] = std::numeric_limits<float>::infinity();
  values[kLength + 1] = std::numeric_limits<float>::quiet_NaN();
  values[2] = -0.0F;
  values[3] = std::numeric_limits<float>::denorm_min();
  return values;
}

class CudaCodec : public testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU";
    values = values_of(GetParam());
  }

  const CodecKernels& cpu = cpu_codec_kernels();
  const CodecKernels& cuda = *cuda_codec_kernels();
  std::vector<float> values;
};

TEST_P(CudaCodec, CudaCodecOfInt8HasTheBitsOfTheCpu) {
  std::vector<std::int8_t> codes(kCount);
  std::vector<float> scales(kRows);
  std::vector<float> back(kCount);
  cpu.encode_int8(values.data(), kRows, kLength, codes.data(), scales.data(),
                  nullptr);
  cpu.decode_int8(codes.data(), scales.data(), kRows, kLength, back.data(),
                  nullptr);

  const GpuArray<float> there(values);
  const GpuArray<std::int8_t> codes_there(kCount);
  const GpuArray<float> scales_there(kRows);
  const GpuArray<float> back_there(kCount);
  cuda.encode_int8(there.data(), kRows, kLength, codes_there.data(),
                   scales_there.data(), nullptr);
  cuda.decode_int8(codes_there.data(), scales_there.data(), kRows, kLength,
                   back_there.data(), nullptr);
  EXPECT_TRUE(same_bits(codes_there.fetched(), codes));
  EXPECT_TRUE(same_bits(scales_there.fetched(), scales));
  EXPECT_TRUE(same_bits(back_there.fetched(), back));
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaCodec, testing::Values(1, 2, 3),
                         testing::PrintToStringParamName());

#else

TEST(CudaCodec, HasTheBitsOfTheCpu) {
  GTEST_SKIP() << "built without nvcc";
}

#endif

}  // namespace sluice::cuda_codecs_test
