#pragma once

#include <string_view>

#include "lib/tensors/tensors.h"

namespace sluice {

/// The codec that sends maps [C, H, W] with half as many rows and columns.
inline constexpr std::string_view kDownsample = "downsample";

/// Whether samples of this shape become smaller by it: maps of more than one
/// pixel. Others are sent as they are.
bool can_downsample(const SampleShape& shape);

}  // namespace sluice
