#include "lib/kernels/cuda_host_memory.h"

namespace sluice {

#ifndef SLUICE_CUDA
// Weak: a program that is linked with tests/simcuda has another one.
__attribute__((weak)) const CudaHostMemory* cuda_host_memory() {
  return nullptr;
}
#endif

}  // namespace sluice
