#pragma once

#include <memory>

#include <c10/core/Device.h>

#include "lib/base/ipc_device.h"
#include "lib/kernels/cuda_ipc.h"

namespace sluice {

/// Whether a block on this device can hand tensors to other processes of the
/// host by CUDA IPC: it is CUDA's, which has IPC for it, and the program was
/// built with nvcc. Their link finds whether one of them can take them
/// (transport/shared/ipc_greeting.h).
bool has_cuda_ipc(const c10::Device& device);

/// Makes the IpcDevice of CUDA, with LibTorch's streams and memory: the buffers
/// that it allocates and keeps are those of view_of() (lib/tensors/pack.h).
/// has_cuda_ipc(device) is true. Memory that CUDA has no more of is asked for
/// once more after LibTorch has given back what it only keeps for later. Tests
/// have functions of their own.
std::shared_ptr<IpcDevice> cuda_ipc_device(const c10::Device& device,
                                           const CudaIpc* cuda = cuda_ipc());

}  // namespace sluice
