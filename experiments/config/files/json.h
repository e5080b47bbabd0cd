#pragma once

#include <nlohmann/json.hpp>

#include "lib/base/config_node.h"

namespace sluice {

/// A config value as JSON, in its order.
nlohmann::ordered_json json_of(const ConfigNode& node);

/// JSON as a config value. Throws UserError for null, for a number that is no
/// 64-bit integer and no double, and for what is nested absurdly deep.
ConfigNode config_of_json(const nlohmann::ordered_json& json);

/// Whether they say the same, whatever the order of keys; 1 and 1.0 are equal.
bool are_equal(const nlohmann::ordered_json& left,
               const nlohmann::ordered_json& right);

}  // namespace sluice
