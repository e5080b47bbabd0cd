#include "lib/tensors/precision.h"

#include <ATen/autocast_mode.h>

namespace sluice {

PrecisionScope::PrecisionScope(Precision precision, c10::DeviceType device)
    : active_(precision == Precision::bf16), device_(device) {
  if (!active_) return;
  before_ = at::autocast::is_autocast_enabled(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  at::autocast::increment_nesting();
}

PrecisionScope::~PrecisionScope() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, before_);
}

FullPrecisionScope::FullPrecisionScope()
    : cpu_before_(at::autocast::is_autocast_enabled(at::kCPU)),
      cuda_before_(at::autocast::is_autocast_enabled(at::kCUDA)) {
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::set_autocast_enabled(at::kCUDA, false);
}

FullPrecisionScope::~FullPrecisionScope() {
  at::autocast::set_autocast_enabled(at::kCPU, cpu_before_);
  at::autocast::set_autocast_enabled(at::kCUDA, cuda_before_);
}

}  // namespace sluice
