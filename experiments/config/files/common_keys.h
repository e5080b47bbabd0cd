#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/base/config_node.h"

namespace sluice {

// [boundary] and [optimizer] have keys for all blocks, and numbered tables for
// one. Within a layer the numbered table wins; a common key of a later layer
// holds for all blocks.

/// Sets a key of a later layer, as ConfigNode::set_path(). A common key also
/// replaces what earlier layers say of single blocks.
void set_for_all(ConfigNode& root, std::string_view path, ConfigNode node);

/// Makes the common keys of a file hold for all blocks in the same way:
/// `result` is `over` merged over `base`.
void hold_for_all(const ConfigNode& base, const ConfigNode& over,
                  ConfigNode& result);

/// Whether a key of a numbered table repeats the common one, as
/// set_for_all() writes it: equal, and from the same place.
bool repeats_common(const ConfigNode& own, const ConfigNode& common);

/// Whether the key is that of a numbered table: "2", "last".
bool names_one_block(std::string_view key);

/// Whether the dotted path leads into a numbered table: "optimizer.2.lr".
bool is_of_one_block(std::string_view path);

/// A resolved config, which has a table for each block, with what all of them
/// share said once. Reading it gives the same experiment.
ConfigNode with_common_keys(ConfigNode resolved);

/// Reads a config as read_config_file() does, with overrides. Where they cut a
/// run's own config into other blocks it has common keys, which the new blocks
/// take.
ConfigNode read_config_to_run(const std::string& path,
                              std::span<const std::string> overrides);

}  // namespace sluice
