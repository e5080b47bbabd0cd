#pragma once

#include <string>

namespace sluice {

/// `sluice new plugin NAME`: writes the folder NAME, with a head, a data set, a
/// test, a config and a CMakeLists.txt that builds them. Throws UserError for a
/// name that is none, or where something of that name is there.
void new_plugin_command(const std::string& name);

}  // namespace sluice
