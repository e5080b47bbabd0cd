#pragma once

#include <string>

#include "lib/base/config_node.h"

namespace sluice {

/// Whether the file is the resolved config of a run: config.toml beside
/// run.json.
bool is_config_of_run(const std::string& path);

/// Sets keys that are younger than the run, and whose default isn't what it had
/// in their place: `masks` to 1, `replicas.deal` to shares.
void add_values_of_old_run(ConfigNode& config);

}  // namespace sluice
