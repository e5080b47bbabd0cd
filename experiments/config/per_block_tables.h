#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/config_node.h"

namespace sluice {

/// The keys of such a table that have a say in what a numbered table takes of
/// the common ones; empty: none.
struct NumberedKeys {
  /// A numbered table that has it takes no common key (another policy has other
  /// options) ...
  std::string_view fresh = {};
  /// ... but for this one.
  std::string_view shared = {};
};

/// A table whose plain keys hold for every block (or boundary), and whose
/// tables "1", "2", ... hold for one of them, is made explicit: tables "1" to
/// "count", each with all of its keys. Throws UserError for a number above
/// `count`, naming `path`.
ConfigNode per_block_tables(const ConfigNode* table, std::int64_t count,
                            const NumberedKeys& keys, std::string_view path);

/// An error about the explicit table of `number`, with the key as it is written
/// in `table`: "optimizer.lr" when it is a common one.
std::string as_written(std::string message, const ConfigNode* table,
                       std::string_view path, std::int64_t number);

}  // namespace sluice
