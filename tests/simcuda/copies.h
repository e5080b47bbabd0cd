#pragma once

#include <ATen/core/Tensor.h>

namespace sluice::simcuda {

// The operations of ATen that bring data from and to a device.

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source,
                  bool non_blocking);
at::Scalar local_scalar(const at::Tensor& self);

}  // namespace sluice::simcuda
