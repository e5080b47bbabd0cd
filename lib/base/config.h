#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

/// Where a value was written: a file and line, or "command line" and 0.
struct Origin {
  std::string file = {};
  int line = 0;

  std::string text() const;  ///< "file:line", "command line", or "default"
};

/// A config value as a tree, with the place where each part was written.
/// Tables keep the order in which their keys were written.
struct ConfigNode {
  using Array = std::vector<ConfigNode>;
  using Table = std::vector<std::pair<std::string, ConfigNode>>;
  using Value = std::variant<std::monostate, bool, std::int64_t, double,
                             std::string, Array, Table>;

  Value value = {};
  Origin origin = {};

  /// The node under `key`, or nullptr; also nullptr when this is no table.
  const ConfigNode* find(std::string_view key) const;
  /// Sets `key` of this table (an empty node becomes one).
  void set(std::string_view key, ConfigNode node);
  /// Sets the dotted `path` ("model.hidden"), making the tables on the way.
  /// Throws UserError when something on the way is no table.
  void set_path(std::string_view path, ConfigNode node);
  /// "integer 3", "string 'x'", "table": for messages.
  std::string describe() const;

  /// Same value, wherever it was written.
  bool operator==(const ConfigNode& other) const;
};

/// What a key means: the manual's text, its unit and its limits (inclusive).
struct Doc {
  std::string_view text = {};
  std::string_view unit = {};
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> allowed = {};  ///< for strings; empty: anything
};

/// One line of the manual.
struct KeyDoc {
  std::string path;  ///< "optimizer.lr"
  std::string type;
  std::string default_value;
  std::string text;
  std::string unit;
  std::string limits;  ///< "0 to 1", "a|b", or empty
};

/// Reads an options struct from a config table. The struct describes itself
/// once, key by key, and that one description reads the values (checking type
/// and limits), makes the resolved tree and writes the manual:
///
///   struct SgdOptions {
///     double momentum = 0.9;
///     void describe(Fields& fields) {
///       fields.key("momentum", momentum,
///                  {.text = "of the velocity", .min = 0, .max = 1});
///     }
///   };
///
/// Every error is a UserError that names the place, the key, what was found
/// and what is allowed. A key that nobody asked for is an error too.
class Fields {
 public:
  /// Reads from `table`; nullptr stands for an empty one (all defaults).
  /// `path` is the table's own name for messages and the manual ("" at the
  /// top). The table must outlive the Fields.
  Fields(const ConfigNode* table, std::string path);

  /// When the key is there its value replaces `value`; otherwise `value`, the
  /// default, stays. Either way it goes into the resolved tree and the manual.
  /// An integer is accepted where a double is asked for, and a single value
  /// where a list is.
  void key(std::string_view name, bool& value, Doc doc);
  void key(std::string_view name, std::int64_t& value, Doc doc);
  void key(std::string_view name, double& value, Doc doc);
  void key(std::string_view name, std::string& value, Doc doc);
  void key(std::string_view name, std::vector<std::int64_t>& value, Doc doc);
  void key(std::string_view name, std::vector<double>& value, Doc doc);
  void key(std::string_view name, std::vector<std::string>& value, Doc doc);
  /// A value of any type, to be interpreted by the caller; `type` is for the
  /// manual ("integer | list of ranges").
  void key(std::string_view name, ConfigNode& value, std::string_view type,
           Doc doc);

  /// A table below this one.
  void section(std::string_view name, std::string_view text,
               const std::function<void(Fields&)>& describe);
  /// An array of tables: `describe` is called once for each, in order. When
  /// `manual_only` calls are needed (no element is there), it is called once
  /// with an empty table whose results the caller ignores: `index` is then -1.
  void list(std::string_view name, std::string_view text,
            const std::function<void(Fields&, std::int64_t index)>& describe);

  /// Whether the user wrote this key.
  bool has(std::string_view name) const;
  /// The names of the keys that the user wrote in this table.
  std::vector<std::string> written() const;
  /// Throws the UserError for a value of `name` that is wrong in a way that
  /// limits can't say: "file:3: model.width: <text>".
  [[noreturn]] void reject(std::string_view name, std::string_view text) const;
  /// Throws when the table has a key that was not asked for. Sections call it
  /// by themselves; the top calls it once at the end.
  void finish() const;

  /// The table with every value as it will be used.
  const ConfigNode& resolved() const { return resolved_; }
  const std::vector<KeyDoc>& manual() const { return manual_; }

 private:
  const ConfigNode* take(std::string_view name);
  template <class T>
  void read(std::string_view name, T& value, const Doc& doc);
  std::string path_of(std::string_view name) const;

  const ConfigNode* table_;
  std::string path_;
  ConfigNode resolved_;
  std::vector<KeyDoc> manual_;
  std::vector<std::string> asked_;
};

}  // namespace sluice
