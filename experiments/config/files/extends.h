#pragma once

#include <string>

#include "lib/base/config_node.h"

namespace sluice {

/// The config file at `path` with all that it inherits. The key `extends`, a
/// file or a list of files relative to this one, names what it starts from:
/// later files win over earlier ones, the file itself over all; tables are
/// merged key by key, everything else (lists too) is replaced; each file is a
/// layer of its own. The result has no key `extends` and no table [about],
/// which is of each file alone. A run's config that is older than a key says
/// what the run had in its place (run_config.h). Throws UserError as
/// read_toml_file() does, for a file that inherits from itself, and for more
/// than 256 files, 32 files in a chain, or kMostValues values.
ConfigNode read_config_file(const std::string& path);

/// Lays a file over the one that it extends, as a later layer: what is in
/// `over` wins; tables are merged key by key, everything else is replaced; a
/// common key of all blocks replaces those of single blocks (common_keys.h).
ConfigNode laid_over(const ConfigNode& base, ConfigNode over);

/// Merges two configs; their parts keep the layers that they come from.
ConfigNode merged(const ConfigNode& base, const ConfigNode& over);

}  // namespace sluice
