#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace sluice {

/// Sets each element of `mask`, float32, to 0 with probability p, 0 <= p < 1,
/// or else to 1 / (1 - p). An element follows from `key` and its index in
/// row-major order alone (lib/kernels/masks.h): the mask has the same bits on
/// every device, with any strides and any number of threads. On a GPU it is
/// drawn there, in the current stream, where the program was built with nvcc;
/// else on the CPU, and copied, without a wait of the host.
void fill_philox_mask(const at::Tensor& mask, double p, std::uint64_t key);

}  // namespace sluice
