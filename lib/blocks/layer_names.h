#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

/// Of a model's parameter or buffer, "layers.12.conv.weight", its layer's place
/// in the uncut model: 12. Nothing for other names.
std::optional<std::int64_t> layer_of_name(std::string_view name);

}  // namespace sluice
