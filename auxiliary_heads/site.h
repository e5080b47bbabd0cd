#pragma once

#include <cstdint>
#include <string_view>

#include "lib/head.h"

namespace sluice {

/// Throws UserError, in the name of `head`, unless the features are [C] or
/// [C, H, W], and there are 2 classes or more.
void check_features(const Site& site, std::string_view head);

/// The key of the head's weights: (seed, layer, name).
std::uint64_t head_key(const Site& site, std::string_view head);

}  // namespace sluice
