#pragma once

#include <string>
#include <string_view>

#include "lib/base/config_node.h"

namespace sluice {

/// The TOML file at `path` as a tree; every node knows its file and line, and
/// tables keep the order of the file. Throws UserError when it can't be read or
/// isn't TOML: file, line, column and reason. Dates and times are refused.
ConfigNode read_toml_file(const std::string& path);

/// Parses a text; `name` stands for the file in messages.
ConfigNode parse_toml(std::string_view text, const std::string& name);

/// The tree as TOML that reads back as an equal tree: in each table plain
/// values first, then [tables] and [[arrays of tables]]. Strings must be UTF-8.
std::string to_toml(const ConfigNode& root);

}  // namespace sluice
