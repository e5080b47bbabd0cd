#pragma once

#include "lib/base/config_node.h"

namespace sluice {

/// The config with what its strings refer to put in their place. "${a.b}" alone
/// stands for the value that the config has under the key a.b, of whatever
/// type; within a longer string, "${name}-${seed}", for its text, which must be
/// of a plain value. What is referred to may refer on. "$${" is the two
/// characters "${". Only keys that the config writes can be referred to, not
/// those that have their default; elements of lists can't. A value keeps the
/// place and layer of the string that it replaces.
///
/// To be called once all layers lie over each other, so that references see
/// what the latest layer says. Throws UserError, in one line, for a key that
/// isn't there, for references that lead back to themselves, and for a config
/// that would become absurdly large.
ConfigNode interpolated(const ConfigNode& config);

/// The inverse of interpolated() for a config without references: "${" becomes
/// "$${" in all strings.
ConfigNode without_references(ConfigNode config);

}  // namespace sluice
