#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tests/simcuda/runtime/call.h"
#include "tests/simcuda/runtime/launch.h"

// In the place of CUDA's header of that name, for .cu files that are compiled
// as C++: as much of CUDA's language as the kernels of lib/kernels use. A
// kernel is a function that is called once for each thread (launch.h). What is
// __shared__ is there once, for one block runs after the other; CUDA's
// variables are those of launch.h.

#define cudaLaunchKernelEx simulated_cudaLaunchKernelEx
#define cudaPointerGetAttributes simulated_cudaPointerGetAttributes

struct dim3 {
  // As CUDA's: else no configuration could be made by {}.
  dim3(unsigned size = 1) : x(size) {}  // NOLINT(google-explicit-constructor)
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

/// As much of it as is set.
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  cudaStream_t stream = nullptr;
};

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return sluice::simcuda::call("cudaLaunchKernelEx()", [&] {
    // CUDA takes no stream of another device here.
    if (sluice::simcuda::device_of(sluice::simcuda::number_of_stream(
            config->stream)) != sluice::simcuda::current_device())
      return cudaErrorInvalidResourceHandle;
    const sluice::simcuda::Grid grid{.blocks = config->gridDim.x,
                                     .threads = config->blockDim.x};
    sluice::simcuda::launch<Parameters...>(
        grid, sluice::simcuda::number_of_stream(config->stream), kernel,
        arguments...);
    return cudaSuccess;
  });
}

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
#define __global__
#define __host__
#define __device__
#define __shared__ static

inline void __syncthreads() {
  sluice::simcuda::wait_for_block();
}
// NOLINTEND(bugprone-reserved-identifier)

/// No other thread runs meanwhile.
template <class T>
T atomicMax(T* at, T value) {
  const T before = *at;
  *at = std::max(before, value);
  return before;
}

enum cudaMemoryType {
  cudaMemoryTypeUnregistered = 0,
  cudaMemoryTypeDevice = 2
};
struct cudaPointerAttributes {
  cudaMemoryType type;
};

inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                            const void* address) {
  const sluice::simcuda::Lock lock(sluice::simcuda::machine().mutex);
  attributes->type = sluice::simcuda::find_allocation(address) == nullptr
                         ? cudaMemoryTypeUnregistered
                         : cudaMemoryTypeDevice;
  return cudaSuccess;
}
