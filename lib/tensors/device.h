#pragma once

#include <string>

#include <c10/core/Device.h>

namespace sluice {

/// Throws UserError for anything but "cpu", "cuda" and "cuda:<number>".
void check_device_name(const std::string& name);

/// That CUDA can use here: 0 when LibTorch has no code for them.
int count_gpus();

/// Where block k computes in this process. "cuda" without a number deals the
/// blocks out over the GPUs that there are here. Throws UserError when the
/// device is missing, or this LibTorch has no code for it.
c10::Device device_for(const std::string& name, int block);

}  // namespace sluice
