#include "lib/kernels/cuda_ipc.h"

namespace sluice {

#ifndef SLUICE_CUDA
// Weak: a program that is linked with tests/simcuda has another one.
__attribute__((weak)) const CudaIpc* cuda_ipc() {
  return nullptr;
}
#endif

}  // namespace sluice
