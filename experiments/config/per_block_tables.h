#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  /// The config layer that last changed how many there are; 0: none has. What
  /// an earlier layer says of a number that is now too high is ignored.
  int recut_in = 0;
};

struct PerBlockTables {
  ConfigNode tables = {};  ///< "1", "2", ... each with all of its keys
  /// Tables ignored because of `recut_in`: "a.toml:7: boundary.3: there are
  /// only numbers 1 to 2".
  std::vector<std::string> ignored = {};
};

/// A table whose plain keys hold for every block (or boundary), and whose
/// tables "1", "2", ... and "last" hold for one of them, is made explicit:
/// tables "1" to "count", each with all of its keys. A common key of a later
/// layer has been laid over the numbered tables (files/common_keys.h). Throws
/// UserError for a number above `count`, naming `path`, unless it was meant for
/// another count; and for a key that "last" and the last number say in the same
/// layer.
PerBlockTables per_block_tables(const ConfigNode* table, std::int64_t count,
                                const NumberedKeys& keys,
                                std::string_view path);

/// A text about the explicit table of `number`, with the key as it is written
/// in `table`: "optimizer.lr" when it is a common one, "optimizer.last.lr" when
/// the last one says it.
std::string as_written(std::string message, const ConfigNode* table,
                       std::string_view path, std::int64_t number,
                       std::int64_t count);

/// Takes a common key out of an explicit table that doesn't know it, where a
/// later layer than that of the number's own table says it: it holds for those
/// that have it. `unknown` is "optimizer.2.momentum". Returns whether it did.
bool leave_out_common(std::string_view unknown, const ConfigNode* table,
                      std::string_view path, std::int64_t number,
                      std::int64_t count, ConfigNode& tables);

}  // namespace sluice
