#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include "lib/kernels/cuda_failure.h"

/// Launches of the CUDA kernels of this folder, and the shares of their threads
/// in the elements of an array.
namespace sluice {

inline constexpr std::int64_t kThreads = 256;
inline constexpr std::int64_t kMostBlocks = 4096;  // a thread takes several

/// A thread's first element, and the distance of its elements.
__device__ inline std::int64_t first_of_thread() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t stride_of_threads() {
  return std::int64_t{gridDim.x} * blockDim.x;
}

/// count > 0: CUDA refuses an empty grid.
inline unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(
      std::min((count + kThreads - 1) / kThreads, kMostBlocks));
}

/// Starts the kernel in `stream`, a cudaStream_t: so many blocks of so many
/// threads. Throws InternalError `what` when it can't be started.
template <class... Parameters>
void start_kernel(const char* what, void (*kernel)(Parameters...),
                  unsigned blocks, unsigned threads, void* stream,
                  std::type_identity_t<Parameters>... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = static_cast<cudaStream_t>(stream);
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // else it stays behind for LibTorch to find
  cuda_failure(what, cudaGetErrorString(error));
}

}  // namespace sluice
