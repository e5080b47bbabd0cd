#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/config_node.h"

namespace sluice {

/// A table whose plain keys hold for every block (or boundary), and whose
/// tables "1", "2", ... hold for one of them, is made explicit: tables "1" to
/// "count", each with all of its keys. A numbered table that has the key
/// `fresh` takes none of the common keys (another policy has other options).
/// Throws UserError for a number above `count`, naming `path`.
ConfigNode numbered(const ConfigNode* table, std::int64_t count,
                    std::string_view fresh, std::string_view path);

}  // namespace sluice
