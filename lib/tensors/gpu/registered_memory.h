#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <c10/core/Device.h>

namespace sluice {

/// Whether memory that LibTorch didn't allocate can be pinned for the device:
/// it is CUDA's, and the program was built with nvcc.
bool can_register_memory(const c10::Device& device);

/// The memory is pinned until the answer is released: copies between it and the
/// device run beside the host, and tensors that lie there say that they are
/// pinned. No copy may use it then, and what is a copy's source must stay until
/// that is done, which LibTorch doesn't see to here: on_device() (staging.h)
/// does. nullptr and a reason in `why` where CUDA refuses it.
/// can_register_memory(device) is true.
std::shared_ptr<void> registered_memory(const c10::Device& device,
                                        std::span<std::byte> memory,
                                        std::string& why);

}  // namespace sluice
