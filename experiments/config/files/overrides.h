#pragma once

#include <string_view>

#include "lib/base/config_node.h"

namespace sluice {

/// Applies "a.b.c=value" of the command line to `root`, making the tables on
/// the way. The value is read as TOML (1e-3, [64, 64], true, {lr = 1}); what is
/// no TOML is a plain string, unless it begins like a list, a table or a quoted
/// string. It replaces what was there, tables too; its origin is "command
/// line", a layer over all files. Throws UserError when the text is no
/// override, or leads through something that is no table. Elements of lists
/// can't be addressed.
void apply_override(ConfigNode& root, std::string_view text);

/// Value of an override: what stands behind its "=". `key` is for messages.
ConfigNode override_value(std::string_view text, std::string_view key);

}  // namespace sluice
