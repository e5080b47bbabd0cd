#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "lib/base/ipc_device.h"
#include "lib/kernels/cuda_ipc.h"

namespace sluice {

/// Whether blocks on these devices, in two processes of this host that see the
/// same GPUs, can hand tensors to each other so: both are CUDA's and the same
/// or in each other's reach, and the program was built with nvcc.
bool has_cuda_ipc(const c10::Device& one, const c10::Device& other);

/// Makes the IpcDevice of CUDA, with LibTorch's streams and memory: the buffers
/// that it allocates and keeps are those of view_of() (lib/tensors/pack.h).
/// has_cuda_ipc(device, ...) is true. Tests have functions of their own.
std::shared_ptr<IpcDevice> cuda_ipc_device(const c10::Device& device,
                                           const CudaIpc* cuda = cuda_ipc());

}  // namespace sluice
