#include "lib/kernels/cuda_ipc.h"

namespace sluice {

#ifndef SLUICE_CUDA
const CudaIpc* cuda_ipc() {
  return nullptr;
}
#endif

}  // namespace sluice
