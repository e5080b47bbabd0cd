#include "lib/tensors/precision.h"

#include <cstddef>

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

FullPrecisionScope::FullPrecisionScope() {
  for (std::size_t i = 0; i < before_.size(); ++i) {
    before_[i] = at::autocast::is_autocast_enabled(kDevicesOfBlocks[i]);
    at::autocast::set_autocast_enabled(kDevicesOfBlocks[i], false);
  }
}

FullPrecisionScope::~FullPrecisionScope() {
  for (std::size_t i = 0; i < before_.size(); ++i)
    at::autocast::set_autocast_enabled(kDevicesOfBlocks[i], before_[i]);
}

}  // namespace sluice
