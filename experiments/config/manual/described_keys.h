#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/config.h"

namespace sluice {

/// A key that a config may have, and what must be said for it to be there.
struct KnownKey {
  KeyDoc doc = {};
  /// The choices under which a key exists: 'model.name = "gpt"'. Empty: always.
  std::vector<std::string> with = {};
};

/// Describes keys without regard to their values.
using Describe = std::function<void(Fields&)>;

/// Keys that `describe` reads from such a table, up to one that it can't do
/// without. `path` is the table's.
std::vector<KeyDoc> manual_with(const ConfigNode& table,
                                const std::string& path,
                                const Describe& describe);

/// All keys that `describe` can describe in the table `path`, which is there
/// under the choice `with`.
std::vector<KnownKey> keys_below(const std::string& path,
                                 const std::string& with,
                                 const Describe& describe);

/// The table in which `path` has that value; a list on the way ("layer[].type")
/// has one element.
ConfigNode table_saying(std::string_view path, const std::string& value);

/// A choice as text: 'model.name = "gpt"'.
std::string saying(std::string_view key, std::string_view value);

bool has_path(std::span<const KeyDoc> docs, std::string_view path);
bool has_path(std::span<const KnownKey> keys, std::string_view path);

/// Adds a key; or, where the key is there already, the choice under which it
/// is.
void add_key(const KnownKey& key, std::vector<KnownKey>& known);

}  // namespace sluice
