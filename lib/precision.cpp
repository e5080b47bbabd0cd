#include "lib/precision.h"

#include <ATen/autocast_mode.h>

namespace sluice {

PrecisionScope::PrecisionScope(Precision precision)
    : active_(precision == Precision::bf16) {
  if (!active_) return;
  before_ = at::autocast::is_autocast_enabled(at::kCPU);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::increment_nesting();
}

PrecisionScope::~PrecisionScope() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, before_);
}

FullPrecisionScope::FullPrecisionScope()
    : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

FullPrecisionScope::~FullPrecisionScope() {
  at::autocast::set_autocast_enabled(at::kCPU, before_);
}

}  // namespace sluice
