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

__global__ void fp16_of_each(const float* values, std::int64_t count,
                             std::uint16_t* codes) {
  for (std::int64_t i = first_of_thread(); i < count; i += stride_of_threads())
    codes[i] = fp16_of(values[i]);
}

__global__ void float_of_each_fp16(const std::uint16_t* codes,
                                   std::int64_t count, float* values) {
  for (std::int64_t i = first_of_thread(); i < count; i += stride_of_threads())
    values[i] = float_of_fp16(codes[i]);
}

__global__ void bf16_of_each(const float* values, std::int64_t count,
                             std::uint16_t* codes) {
  for (std::int64_t i = first_of_thread(); i < count; i += stride_of_threads())
    codes[i] = bf16_of(values[i]);
}

__global__ void float_of_each_bf16(const std::uint16_t* codes,
                                   std::int64_t count, float* values) {
  for (std::int64_t i = first_of_thread(); i < count; i += stride_of_threads())
    values[i] = float_of_bf16(codes[i]);
}

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

template <class From, class To>
void start(void (*kernel)(const From*, std::int64_t, To*), const From* from,
           std::int64_t count, To* to, Stream stream) {
  if (count == 0) return;  // CUDA refuses an empty grid
  kernel<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      from, count, to);
  check_start(kFailure);
}

void encode_fp16(const float* values, std::int64_t count, std::uint16_t* codes,
                 Stream stream) {
  start(fp16_of_each, values, count, codes, stream);
}

void decode_fp16(const std::uint16_t* codes, std::int64_t count, float* values,
                 Stream stream) {
  start(float_of_each_fp16, codes, count, values, stream);
}

void encode_bf16(const float* values, std::int64_t count, std::uint16_t* codes,
                 Stream stream) {
  start(bf16_of_each, values, count, codes, stream);
}

void decode_bf16(const std::uint16_t* codes, std::int64_t count, float* values,
                 Stream stream) {
  start(float_of_each_bf16, codes, count, values, stream);
}

void encode_int8(const float* values, std::int64_t rows, std::int64_t length,
                 std::int8_t* codes, float* scales, Stream stream) {
  if (rows == 0) return;
  check_rows(rows);
  int8_of_rows<<<static_cast<unsigned>(rows), threads_for(length), 0,
                 static_cast<cudaStream_t>(stream)>>>(values, length, codes,
                                                      scales);
  check_start(kFailure);
}

void decode_int8(const std::int8_t* codes, const float* scales,
                 std::int64_t rows, std::int64_t length, float* values,
                 Stream stream) {
  if (rows == 0) return;
  check_rows(rows);
  float_of_int8_rows<<<static_cast<unsigned>(rows), threads_for(length), 0,
                       static_cast<cudaStream_t>(stream)>>>(codes, scales,
                                                            length, values);
  check_start(kFailure);
}

}  // namespace

const CodecKernels* cuda_codec_kernels() {
  static constexpr CodecKernels kKernels = {encode_fp16, decode_fp16,
                                            encode_bf16, decode_bf16,
                                            encode_int8, decode_int8};
  return &kKernels;
}

}  // namespace sluice
