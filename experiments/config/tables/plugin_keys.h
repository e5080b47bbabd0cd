#pragma once

#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/config_node.h"

namespace sluice {

/// Loads the plug-ins that the key `plugins` names, in that order, before any
/// key is read that may name what they add. A path is relative to the folder of
/// the file that says it, else to the current one. Returns what the resolved
/// config has in its place: [{path = "/abs/libmine.so", sha256 = "..."}], which
/// wants the very same file when it is read again, by a worker process or to
/// continue the run. Empty: the config names none. Throws UserError
/// (plugins/library.h) with its place.
ConfigNode read_plugins(Fields& top);

/// Adds such files, named on the command line, to the config's. Takes one that
/// is named there already as it is now, with any hash.
void add_plugins(const std::vector<std::string>& paths, ConfigNode& config);

/// Override with these paths, in place of the config's own list:
/// `plugins=["/abs/libmine.so"]`.
std::string plugins_override(const std::vector<std::string>& paths);

/// Loads plug-ins for commands without a config.
void load_plugins(const std::vector<std::string>& paths);

}  // namespace sluice
