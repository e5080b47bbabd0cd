#pragma once

#include "lib/base/config.h"

namespace sluice {

/// Arithmetic of GPUs: keys of a config.
struct GpuArithmetic {
  bool deterministic = true;
  bool tf32 = false;
  bool cudnn_benchmark = false;

  void describe(Fields& fields);
};

/// Sets how operations of this process on GPUs compute from now on. To be
/// called before the first of them.
void set_gpu_arithmetic(const GpuArithmetic& arithmetic);

}  // namespace sluice
