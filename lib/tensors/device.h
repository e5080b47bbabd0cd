#pragma once

#include <optional>
#include <string>

#include <c10/core/Device.h>

namespace sluice {

/// Throws UserError for anything but "cpu", "cuda" and "cuda:<number>", and
/// likewise "xpu" (Intel's GPUs). ROCm's LibTorch calls its GPUs CUDA's.
void check_device_name(const std::string& name);

/// Number of GPUs that can be used here: 0 when LibTorch has no code for them.
int count_gpus(c10::DeviceType type = c10::DeviceType::CUDA);

/// Device of block k in this process. "cuda" without a number deals the GPUs
/// that there are here out over the ranks of this host, of which this process
/// is number `local_rank` (from 0), or, where it is none, over the blocks.
/// Throws UserError when the device is missing, or this LibTorch has no code
/// for it.
c10::Device device_for(const std::string& name, int block,
                       std::optional<int> local_rank = std::nullopt);

}  // namespace sluice
