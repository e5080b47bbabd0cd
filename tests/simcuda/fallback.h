#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace sluice::simcuda {

/// Does any operation of ATen on the CPU, over the bytes of the device, and
/// records what it reads and writes.
void run_on_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack);

}  // namespace sluice::simcuda
