#pragma once

#include "lib/base/config.h"

namespace sluice {

/// How GPUs compute: keys of a config.
struct GpuArithmetic {
  bool deterministic = true;
  bool tf32 = false;
  bool cudnn_benchmark = false;

  void describe(Fields& fields);
};

/// From now on the operations of this process on GPUs compute so. To be called
/// before the first of them.
void set_gpu_arithmetic(const GpuArithmetic& arithmetic);

}  // namespace sluice
