#pragma once

#include <string>
#include <vector>

#include "lib/base/config.h"

namespace sluice {

/// The manual of a config for a terminal of 80 columns: a paragraph per table,
/// a line per key with its type, meaning, default, unit and limits.
std::string config_manual(const std::vector<KeyDoc>& keys);

}  // namespace sluice
