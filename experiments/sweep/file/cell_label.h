#pragma once

#include <string>
#include <vector>

#include "experiments/sweep/file/cells.h"

namespace sluice::sweep {

/// A value in a table: a string as it is, a table by its `policy` or `name`
/// where that tells it from all others of its axis, else as in TOML.
std::string value_text(const ConfigNode& value,
                       const std::vector<ConfigNode>& all);

/// Names for keys: the last part of each, or the whole key where others end so
/// too.
std::vector<std::string> short_names(const std::vector<std::string>& keys);

/// "policy=local_loss, lr=0.1"; "all" without values. `names` are those of
/// `keys`.
std::string label_of(const Cell& cell, const std::vector<std::string>& keys,
                     const std::vector<std::string>& names);

/// "001-local_loss-0.1": a name for a cell's folder that any file system takes.
std::string folder_name(const std::string& id, const Cell& cell);

}  // namespace sluice::sweep
