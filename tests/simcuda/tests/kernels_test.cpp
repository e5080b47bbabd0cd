// Kernels on the simulated GPU: those of lib/kernels have the bits of the CPU,
// and each mistake that is planted in one is found.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/kernels/codecs.h"
#include "lib/kernels/masks.h"
#include "lib/tensors/gpu/current_device.h"
#include "lib/tensors/streams.h"
#include "tests/lib/kernels/numbers.h"
#include "tests/simcuda/tests/simulated_test.h"

// After all others: it has macros.
#include "tests/simcuda/runtime/cuda_runtime.h"

namespace sluice::simcuda::kernels_test {

using testing::ElementsAre;
using testing::HasSubstr;

void* stream() {
  return sluice::computing_on(kGpu).native_handle();
}

template <class T>
at::Tensor there(const std::vector<T>& values, at::ScalarType type) {
  const auto count = static_cast<std::int64_t>(values.size());
  const at::Tensor here = at::empty({count}, at::TensorOptions(type));
  std::copy(values.begin(), values.end(), here.data_ptr<T>());
  return here.to(kGpu);
}

template <class T>
std::vector<T> back(const at::Tensor& tensor) {
  const at::Tensor here = tensor.cpu();
  const T* const data = here.const_data_ptr<T>();
  return {data, data + here.numel()};
}

/// Bits, for NaN is unequal to itself.
std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

struct Shape {
  std::int64_t rows;
  std::int64_t length;
};

/// All sizes, with what is no number in the last row.
std::vector<float> values_of(const Shape& shape) {
  std::vector<float> values = numbers_of_all_sizes(
      7, static_cast<std::size_t>(shape.rows * shape.length), 1e6);
  values.back() = std::numeric_limits<float>::infinity();
  values.front() = -0.0F;
  return values;
}

class CodecThere : public SimulatedGpu {};

TEST_F(CodecThere, CodecThereOfInt8HasTheBitsOfTheCpu) {
  const CodecKernels& cpu = cpu_codec_kernels();
  ASSERT_NE(cuda_codec_kernels(), nullptr);
  const CodecKernels& cuda = *cuda_codec_kernels();
  for (const Shape shape : {Shape{1, 1}, Shape{3, 31}, Shape{5, 64},
                            Shape{4, 257}, Shape{7, 1009}}) {
    const auto count = static_cast<std::size_t>(shape.rows * shape.length);
    const std::vector<float> values = values_of(shape);
    std::vector<std::int8_t> codes(count);
    std::vector<float> scales(static_cast<std::size_t>(shape.rows));
    std::vector<float> decoded(count);
    cpu.encode_int8(values.data(), shape.rows, shape.length, codes.data(),
                    scales.data(), nullptr);
    cpu.decode_int8(codes.data(), scales.data(), shape.rows, shape.length,
                    decoded.data(), nullptr);

    const at::Tensor from = there(values, at::kFloat);
    const at::Tensor codes_there =
        at::empty({shape.rows * shape.length}, from.options().dtype(at::kChar));
    const at::Tensor scales_there = at::empty({shape.rows}, from.options());
    const at::Tensor decoded_there = at::empty_like(from);
    const std::int64_t launches = counts().launches;
    cuda.encode_int8(from.const_data_ptr<float>(), shape.rows, shape.length,
                     codes_there.data_ptr<std::int8_t>(),
                     scales_there.data_ptr<float>(), stream());
    cuda.decode_int8(codes_there.const_data_ptr<std::int8_t>(),
                     scales_there.const_data_ptr<float>(), shape.rows,
                     shape.length, decoded_there.data_ptr<float>(), stream());
    EXPECT_EQ(counts().launches, launches + 2);
    EXPECT_EQ(back<std::int8_t>(codes_there), codes) << shape.length;
    EXPECT_EQ(bits_of(back<float>(scales_there)), bits_of(scales));
    EXPECT_EQ(bits_of(back<float>(decoded_there)), bits_of(decoded));
    EXPECT_NE(bits_of(decoded), bits_of(values));
  }
}

/// What is computed in one stream is encoded in another.
TEST_F(CodecThere, WithoutAnOrderIsReported) {
  const at::Tensor values = at::ones({64}, kGpu) + 1;
  const at::Tensor codes = at::empty({64}, values.options().dtype(at::kChar));
  const at::Tensor scales = at::empty({1}, values.options());
  cuda_codec_kernels()->encode_int8(
      values.const_data_ptr<float>(), 1, 64, codes.data_ptr<std::int8_t>(),
      scales.data_ptr<float>(), arriving().native_handle());
  EXPECT_THAT(take_reports(), testing::Contains(HasSubstr("a kernel in")));
  order(arriving(),
        sluice::computing_on(kGpu));  // before the memory is released
}

class MaskThere : public SimulatedGpu {};

TEST_F(MaskThere, FromAnyElementHasTheBitsOfTheCpu) {
  const MaskRule rule = mask_rule(0.3, 11);
  for (const std::int64_t first : {0, 1, 6, 1023})
    for (const std::int64_t count : {1, 5, 1024, 3001}) {
      std::vector<float> here(static_cast<std::size_t>(count));
      cpu_mask_kernels().fill(rule, first, count, here.data(), nullptr);
      const at::Tensor mask =
          at::empty({count}, at::TensorOptions(at::kFloat).device(kGpu));
      cuda_mask_kernels()->fill(rule, first, count, mask.data_ptr<float>(),
                                stream());
      EXPECT_EQ(back<float>(mask), here) << first << ", " << count;
    }
}

// Planted mistakes. Each kernel is that of the row's largest, or writes what
// its threads are.

constexpr std::int64_t kElements = 1024;  // whole allocations
constexpr unsigned kThreadsThere = 64;

__global__ void largest_of_row(const std::int32_t* values, std::int64_t length,
                               std::int32_t* results, bool begins_together,
                               bool ends_together) {
  __shared__ std::int32_t largest;
  if (threadIdx.x == 0) largest = 0;
  if (begins_together) __syncthreads();
  const std::int64_t begin = blockIdx.x * length;
  std::int32_t mine = 0;
  for (std::int64_t i = threadIdx.x; i < length; i += blockDim.x)
    mine = std::max(mine, values[begin + i]);
  atomicMax(&largest, mine);
  if (ends_together) __syncthreads();
  for (std::int64_t i = threadIdx.x; i < length; i += blockDim.x)
    results[begin + i] = largest;
}

__global__ void number_each(std::int32_t* results, std::int64_t count,
                            std::int64_t further) {
  for (std::int64_t i = threadIdx.x; i < count + further; i += blockDim.x)
    results[i] = static_cast<std::int32_t>(i);
}

__global__ void take_next(const std::int32_t* values, std::int64_t count,
                          std::int64_t further, std::int32_t* results) {
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x)
    results[i] = values[i + further];
}

__global__ void wait_in_one_half(std::int32_t* results) {
  if (threadIdx.x < blockDim.x / 2) __syncthreads();
  results[threadIdx.x] = 1;
}

class PlantedInAKernel : public SimulatedGpu {
 protected:
  PlantedInAKernel() {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(kElements));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = static_cast<std::int32_t>(i * 37 % 1001);
    values = there(numbers, at::kInt);
    results = at::zeros({kElements}, values.options());
  }

  template <class... Parameters, class... Arguments>
  void start_on(unsigned blocks, void (*kernel)(Parameters...),
                Arguments... arguments) {
    cudaLaunchConfig_t config;
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(kThreadsThere);
    config.stream = static_cast<cudaStream_t>(stream());
    EXPECT_EQ(cudaLaunchKernelEx(&config, kernel, arguments...), cudaSuccess);
  }
  void find_largest(bool begins_together, bool ends_together) {
    start_on(2, largest_of_row, values.const_data_ptr<std::int32_t>(),
             kElements / 2, results.data_ptr<std::int32_t>(), begins_together,
             ends_together);
  }

  at::Tensor values;
  at::Tensor results;
};

TEST_F(PlantedInAKernel, NothingIsRight) {
  find_largest(true, true);
  const at::Tensor rows = values.cpu().view({2, kElements / 2});
  const at::Tensor largest = rows.amax({1}, /*keepdim=*/true);
  EXPECT_TRUE(
      results.cpu().view(rows.sizes()).equal(largest.expand(rows.sizes())));
}

/// As where a device guard is missing.
TEST_F(PlantedInAKernel, AnotherCurrentDeviceIsRefused) {
  cudaLaunchConfig_t config;
  config.stream = static_cast<cudaStream_t>(stream());
  std::int32_t* const to = results.data_ptr<std::int32_t>();
  const auto launched = [&] {
    return cudaLaunchKernelEx(&config, number_each, to, kElements,
                              std::int64_t{0});
  };
  {
    const CurrentDevice on(c10::Device(c10::DeviceType::CUDA, 1));
    EXPECT_EQ(launched(), cudaErrorInvalidResourceHandle);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  }
  EXPECT_EQ(launched(), cudaSuccess);
}

TEST_F(PlantedInAKernel, NoBarrierAfterTheFirstThreadIsFound) {
  find_largest(false, true);
  EXPECT_THAT(take_reports(), ElementsAre(HasSubstr("order of its threads")));
}

TEST_F(PlantedInAKernel, NoBarrierBeforeTheResultIsFound) {
  find_largest(true, false);
  EXPECT_THAT(take_reports(), ElementsAre(HasSubstr("order of its threads")));
}

TEST_F(PlantedInAKernel, AWriteOutOfRangeIsFound) {
  start_on(1, number_each, results.data_ptr<std::int32_t>(), kElements,
           std::int64_t{1});
  EXPECT_THAT(take_reports(), ElementsAre(HasSubstr("beyond its arrays")));
  start_on(1, number_each, results.data_ptr<std::int32_t>(), kElements,
           std::int64_t{0});
  EXPECT_EQ(results[kElements - 1].item<std::int32_t>(), kElements - 1);
}

TEST_F(PlantedInAKernel, AReadOutOfRangeIsFound) {
  for (const std::int64_t further : {1, 0}) {
    start_on(1, take_next, values.const_data_ptr<std::int32_t>(), kElements,
             further, results.data_ptr<std::int32_t>());
    EXPECT_EQ(take_reports().size(), static_cast<std::size_t>(further));
  }
  EXPECT_TRUE(results.cpu().equal(values.cpu()));
}

TEST_F(PlantedInAKernel, ABarrierForSomeThreadsIsFound) {
  start_on(1, wait_in_one_half, results.data_ptr<std::int32_t>());
  EXPECT_THAT(take_reports(),
              testing::Contains(HasSubstr("not all threads of a block")));
}

/// Memory of the host, for instance.
TEST_F(PlantedInAKernel, MemoryOfNoDeviceIsRefused) {
  std::vector<std::int32_t> here(static_cast<std::size_t>(kElements));
  cudaLaunchConfig_t config;
  config.stream = static_cast<cudaStream_t>(stream());
  EXPECT_NE(cudaLaunchKernelEx(&config, number_each, here.data(), kElements,
                               std::int64_t{0}),
            cudaSuccess);
  cudaGetLastError();
}

}  // namespace sluice::simcuda::kernels_test
