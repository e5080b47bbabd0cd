#pragma once

#include <nlohmann/json.hpp>

#include "lib/base/config_node.h"

namespace sluice {

/// The tree with its keys in their order; an empty node becomes null.
nlohmann::ordered_json to_json(const ConfigNode& node);

}  // namespace sluice
