#include <cstdint>

#include <cuda_runtime.h>

#include "lib/kernels/cuda_loops.cuh"
#include "lib/kernels/mask_element.h"
#include "lib/kernels/masks.h"

namespace sluice {
namespace {

using Stream = MaskKernels::Stream;

constexpr const char* kFailure = "a mask's CUDA kernel can't be started";

__device__ PhiloxWords numbers_of(const MaskRule& rule, std::int64_t counter) {
  return mask_numbers(rule, static_cast<std::uint32_t>(counter),
                      static_cast<std::uint32_t>(counter >> 32));
}

/// The number at a place that isn't known when this is compiled: an array would
/// lie in slow memory then.
__device__ std::uint32_t number_at(const PhiloxWords& numbers,
                                   std::int64_t place) {
  const std::uint32_t even = place < 2 ? numbers.word[0] : numbers.word[2];
  const std::uint32_t odd = place < 2 ? numbers.word[1] : numbers.word[3];
  return place % 2 == 0 ? even : odd;
}

/// A counter for each step of a thread. Elements of the first and the last one
/// may lie outside.
__global__ void draw_counters(MaskRule rule, std::int64_t first,
                              std::int64_t count, float* mask) {
  const std::int64_t first_counter = first / kElementsOfCounter;
  const std::int64_t last_counter = (first + count - 1) / kElementsOfCounter;
  for (std::int64_t counter = first_counter + first_of_thread();
       counter <= last_counter; counter += stride_of_threads()) {
    const PhiloxWords numbers = numbers_of(rule, counter);
    const std::int64_t begin = counter * kElementsOfCounter - first;
    for (int i = 0; i < kElementsOfCounter; ++i)
      if (begin + i >= 0 && begin + i < count)
        mask[begin + i] = mask_element(rule, numbers.word[i]);
  }
}

/// An element for each step of a thread, in the order of memory: neighbours
/// there are of different counters.
__global__ void draw_channels_last(MaskRule rule, ChannelsLast shape,
                                   std::int64_t count, float* mask) {
  const std::int64_t size = shape.channels * shape.pixels;
  for (std::int64_t i = first_of_thread(); i < count;
       i += stride_of_threads()) {
    const std::int64_t sample = shape.first_sample + i / size;
    const std::int64_t pixel = i % size / shape.channels;
    const std::int64_t channel = i % shape.channels;
    const std::int64_t element = sample * size + channel * shape.pixels + pixel;
    const PhiloxWords numbers = numbers_of(rule, element / kElementsOfCounter);
    mask[i] =
        mask_element(rule, number_at(numbers, element % kElementsOfCounter));
  }
}

void fill(const MaskRule& rule, std::int64_t first, std::int64_t count,
          float* mask, Stream stream) {
  if (count == 0) return;
  const std::int64_t counters = count / kElementsOfCounter + 2;
  start_kernel(kFailure, draw_counters, blocks_for(counters), kThreads, stream,
               rule, first, count, mask);
}

void fill_channels_last(const MaskRule& rule, const ChannelsLast& shape,
                        float* mask, Stream stream) {
  const std::int64_t count = shape.samples * shape.channels * shape.pixels;
  if (count == 0) return;
  start_kernel(kFailure, draw_channels_last, blocks_for(count), kThreads,
               stream, rule, shape, count, mask);
}

bool reaches(const float* mask) {
  cudaPointerAttributes attributes = {};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, mask);
  if (error != cudaSuccess) cudaGetLastError();  // clears the error
  return error == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
}

}  // namespace

const MaskKernels* cuda_mask_kernels() {
  static constexpr MaskKernels kKernels = {fill, fill_channels_last, reaches};
  return &kKernels;
}

}  // namespace sluice
