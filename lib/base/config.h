#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/base/config_node.h"
#include "lib/base/error.h"

namespace sluice {

/// A value with its name in configs: an enumerator, a flag, a row of a table.
template <class T>
struct NamedChoice {
  std::string name;
  T value;
};
template <class T>
using Names = std::vector<NamedChoice<T>>;

/// The name of the first entry with this value; empty when there is none.
template <class T>
std::string name_of(const T& value,
                    const Names<std::type_identity_t<T>>& names) {
  for (const NamedChoice<T>& each : names)
    if (each.value == value) return each.name;
  return {};
}

/// Documentation of a key: the manual's text, its unit and its limits
/// (inclusive).
struct Doc {
  std::string_view text = {};
  std::string_view unit = {};
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> allowed = {};  ///< for strings; empty: anything
  /// Whether the value decides which other keys the table has. When a later
  /// layer changes it, keys of earlier layers that don't exist with the new
  /// value are dropped(), and not an error.
  bool decides = false;
  /// Values that the manual names where `allowed` is empty: those of a table
  /// whose rows the caller looks up, with an error of its own.
  std::vector<std::string> names = {};
};

/// A key that the table's choice no longer has: "boundary.head.hidden", written
/// at "a.toml:3", dropped by "boundary.head.name = "conv" (command line)".
struct DroppedKey {
  std::string path = {};
  std::string place = {};
  std::string by = {};

  bool operator==(const DroppedKey&) const = default;
};

/// A key as the manual describes it.
struct KeyDoc {
  std::string path = {};  ///< "optimizer.lr", "optimizer.groups[].match"
  std::string type = {};  ///< "number", "list of strings", "table", ...
  std::string default_value = {};  ///< as in TOML; empty for a table
  std::string text = {};
  std::string unit = {};
  std::string limits = {};                ///< "0 to 1", "a|b", or empty
  std::vector<std::string> choices = {};  ///< all values; empty: any others
  bool decides = false;                   ///< Doc's

  bool operator==(const KeyDoc&) const = default;
};

/// A key that its table doesn't have. what() is place(), hint() and rest() in
/// one line.
class UnknownKey : public UserError {
 public:
  UnknownKey(const std::string& place, const std::string& hint,
             const std::string& rest, std::string path)
      : UserError("{}{}{}", place, hint, rest),
        place_(place),
        hint_(hint),
        rest_(rest),
        path_(std::move(path)) {}

  const std::string& place() const { return place_; }  ///< "a.toml:3: unkn..."
  /// " (did you mean 'x'?)", or empty.
  const std::string& hint() const { return hint_; }
  const std::string& rest() const { return rest_; }  ///< "; this table has..."
  const std::string& path() const { return path_; }  ///< "optimizer.lrr"

 private:
  std::string place_;
  std::string hint_;
  std::string rest_;
  std::string path_;
};

/// Reads an options struct from a config table. The struct describes itself
/// once, key by key, and that one description reads the values (checking type
/// and limits), makes the resolved tree and writes the manual:
///
///   struct SgdOptions {
///     double momentum = 0.9;
///     void describe(Fields& fields) {
///       fields.key("momentum", momentum,
///                  {.text = "momentum of the velocity", .min = 0, .max = 1});
///     }
///   };
///
/// Every error is a UserError that names the place, the key, what was found and
/// what is allowed. A key that no reader asked for is an error too.
class Fields {
 public:
  /// Reads from `table`; nullptr stands for an empty one (all defaults).
  /// `path` is the table's own name for messages and the manual ("" at the
  /// top). The table must outlive the Fields.
  Fields(const ConfigNode* table, std::string path);

  /// Reads a key. When it is there its value replaces `value`; otherwise
  /// `value`, the default, stays. Either way it goes into the resolved tree and
  /// the manual. An integer is accepted where a double is asked for, and a
  /// single value where a list is; NaN and infinities are not. A default is not
  /// checked: give one that the limits allow, or the resolved table can't be
  /// read again. Asking for a name twice is an InternalError.
  void key(std::string_view name, bool& value, Doc doc);
  void key(std::string_view name, std::int64_t& value, Doc doc);
  /// An integer too; its limits must begin at 0 or above.
  void key(std::string_view name, std::uint64_t& value, Doc doc);
  void key(std::string_view name, double& value, Doc doc);
  void key(std::string_view name, std::string& value, Doc doc);
  void key(std::string_view name, std::vector<std::int64_t>& value, Doc doc);
  void key(std::string_view name, std::vector<double>& value, Doc doc);
  void key(std::string_view name, std::vector<std::string>& value, Doc doc);
  /// A value of any type, to be interpreted by the caller; `type` is for the
  /// manual ("integer | list of ranges"). An empty node is a default too: then
  /// the key is left out of the resolved table.
  void key(std::string_view name, ConfigNode& value, std::string_view type,
           Doc doc);

  /// A choice of some values, written by name. The default must be one of them.
  template <class T>
  void key(std::string_view name, T& value,
           const Names<std::type_identity_t<T>>& names, Doc doc);
  /// A choice that may be absent: a key that the user didn't write is left out
  /// of the resolved table, and leaves `value` empty.
  template <class T>
  void optional(std::string_view name, std::optional<T>& value,
                const Names<std::type_identity_t<T>>& names, Doc doc);

  /// Reads a table below this one.
  void section(std::string_view name, std::string_view text,
               const std::function<void(Fields&)>& describe);
  /// An array of tables: `describe` is called once for each, in order. When no
  /// element is there, it is called once for the manual only, with an empty
  /// table whose results the caller ignores: `index` is then -1.
  void list(std::string_view name, std::string_view text,
            const std::function<void(Fields&, std::int64_t index)>& describe);

  /// Whether the user wrote this key.
  bool has(std::string_view name) const;
  /// The names of the keys that the user wrote in this table.
  std::vector<std::string> written() const;
  /// Throws the UserError for a value of `name` that is wrong in a way that
  /// limits can't say: "file:3: model.width: <text>".
  [[noreturn]] void reject(std::string_view name, std::string_view text) const;
  /// Ends the reading. Throws when the table has a key that was not read,
  /// unless it is to be dropped. Sections call it by themselves; the top calls
  /// it once at the end.
  void finish();

  /// The table with every value as it will be used.
  const ConfigNode& resolved() const { return resolved_; }
  const std::vector<KeyDoc>& manual() const { return manual_; }
  /// Keys that were dropped, of this table and those below.
  const std::vector<DroppedKey>& dropped() const { return dropped_; }

 private:
  const ConfigNode* take(std::string_view name);
  template <class T>
  void read(std::string_view name, T& value, const Doc& doc);
  void describe_absent(std::string_view name, const Doc& doc);
  void note_decision(std::string_view name, const ConfigNode& node);
  bool drops(const std::string& name, const ConfigNode& node);
  std::string path_of(std::string_view name) const;
  void add_manual(const Fields& below, std::string_view path,
                  std::string_view shown_as);
  void finish_below(Fields& below);

  const ConfigNode* table_;
  std::string path_;
  ConfigNode resolved_;
  std::vector<KeyDoc> manual_;
  std::vector<std::string> asked_;
  std::vector<DroppedKey> dropped_;
  std::string decided_by_;  // the latest choice that a later layer changed
  int decided_in_ = 0;      // its layer; 0: none was
};

template <class T>
void Fields::key(std::string_view name, T& value,
                 const Names<std::type_identity_t<T>>& names, Doc doc) {
  std::string text = name_of(value, names);
  for (const auto& each : names) doc.allowed.push_back(each.name);
  key(name, text, std::move(doc));
  for (const auto& each : names)
    if (each.name == text) value = each.value;
}

template <class T>
void Fields::optional(std::string_view name, std::optional<T>& value,
                      const Names<std::type_identity_t<T>>& names, Doc doc) {
  if (has(name)) {
    key(name, value.emplace(names.front().value), names, std::move(doc));
    return;
  }
  for (const auto& each : names) doc.allowed.push_back(each.name);
  describe_absent(name, doc);
}

}  // namespace sluice
