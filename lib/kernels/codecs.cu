#include <algorithm>

#include <cuda_runtime.h>

#include "lib/kernels/codecs.h"
#include "lib/kernels/cuda_failure.h"
#include "lib/kernels/cuda_loops.cuh"
#include "lib/kernels/element.h"

namespace sluice {
namespace {

using Stream = CodecKernels::Stream;

constexpr const char* kFailure = "a codec's CUDA kernel can't be started";
constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kMostRows = 0x7fff'ffff;

/// A row for each of the grid's blocks.
__global__ void int8_of_rows(const float* values, std::int64_t length,
                             std::int8_t* codes, float* scales) {
  __shared__ std::uint32_t largest;
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  const std::int64_t begin = blockIdx.x * length;
  std::uint32_t mine = 0;
  for (std::int64_t i = threadIdx.x; i < length; i += blockDim.x)
    mine = std::max(mine, magnitude_bits(values[begin + i]));
  atomicMax(&largest, mine);
  __syncthreads();
  const float scale = int8_scale(largest);
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (std::int64_t i = threadIdx.x; i < length; i += blockDim.x)
    codes[begin + i] = int8_of(values[begin + i], scale);
}

__global__ void float_of_int8_rows(const std::int8_t* codes,
                                   const float* scales, std::int64_t length,
                                   float* values) {
  const std::int64_t begin = blockIdx.x * length;
  const float scale = scales[blockIdx.x];
  for (std::int64_t i = threadIdx.x; i < length; i += blockDim.x)
    values[begin + i] = float_of_int8(codes[begin + i], scale);
}

void check_rows(std::int64_t rows) {
  if (rows > kMostRows)
    cuda_failure(kFailure, "it takes no more than 2^31 - 1 rows");
}

/// Whole warps, no more than a short row keeps busy.
unsigned threads_for(std::int64_t length) {
  const std::int64_t warps = (length + kWarp - 1) / kWarp;
  return static_cast<unsigned>(
      std::clamp<std::int64_t>(warps * kWarp, kWarp, kThreads));
}

void encode_int8(const float* values, std::int64_t rows, std::int64_t length,
                 std::int8_t* codes, float* scales, Stream stream) {
  if (rows == 0) return;
  check_rows(rows);
  start_kernel(kFailure, int8_of_rows, static_cast<unsigned>(rows),
               threads_for(length), stream, values, length, codes, scales);
}

void decode_int8(const std::int8_t* codes, const float* scales,
                 std::int64_t rows, std::int64_t length, float* values,
                 Stream stream) {
  if (rows == 0) return;
  check_rows(rows);
  start_kernel(kFailure, float_of_int8_rows, static_cast<unsigned>(rows),
               threads_for(length), stream, codes, scales, length, values);
}

}  // namespace

const CodecKernels* cuda_codec_kernels() {
  static constexpr CodecKernels kKernels = {encode_int8, decode_int8};
  return &kKernels;
}

}  // namespace sluice
