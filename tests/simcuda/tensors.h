#pragma once

#include <ATen/core/Tensor.h>

#include "tests/simcuda/device_memory.h"

namespace sluice::simcuda {

/// A tensor of the CPU over the same bytes.
at::Tensor as_cpu(const at::Tensor& tensor);

/// The same without a share in its memory, of which a graph has addresses only.
at::Tensor unowned(const at::Tensor& tensor);

/// The memory of a tensor of a device; nullptr where it has no elements.
Allocation* memory_of(const at::Tensor& tensor);

// Record that an operation uses the tensor's memory, where it has any.
void read(const at::Tensor& tensor, const Use& use);
void write(const at::Tensor& tensor, const Use& use);

}  // namespace sluice::simcuda
