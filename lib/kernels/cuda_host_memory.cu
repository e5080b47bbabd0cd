#include <cuda_runtime_api.h>

#include "lib/kernels/cuda_calls.cuh"
#include "lib/kernels/cuda_host_memory.h"

namespace sluice {
namespace {

const char* pin(int device, std::byte* memory, std::size_t bytes) {
  const DeviceScope on(device);
  return reason(cudaHostRegister(memory, bytes, cudaHostRegisterPortable));
}

void unpin(int device, std::byte* memory) {
  const DeviceScope on(device);
  reason(cudaHostUnregister(memory));
}

}  // namespace

const CudaHostMemory* cuda_host_memory() {
  static constexpr CudaHostMemory kFunctions = {pin, unpin};
  return &kFunctions;
}

}  // namespace sluice
