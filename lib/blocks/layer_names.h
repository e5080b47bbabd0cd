#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

/// Place in the uncut model of the layer that a parameter or buffer belongs to:
/// 12 for "layers.12.conv.weight". Nothing for other names.
std::optional<std::int64_t> layer_of_name(std::string_view name);

}  // namespace sluice
