#pragma once

#include <cstdint>
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
  /// Layers lie over each other: a file over those that it extends, the command
  /// line over files, the cell of a sweep over both.
  int layer = 0;
  bool replaces = false;  ///< another value, of an earlier layer

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
  /// Sets `key` of this table (an empty node becomes one), in the place that
  /// it has or at the end. A value that an earlier layer has said already stays
  /// of that layer. InternalError when this is anything else.
  void set(std::string_view key, ConfigNode node);
  /// Sets the dotted `path` ("model.hidden"), making the tables on the way.
  /// Throws UserError when something on the way is no table.
  void set_path(std::string_view path, ConfigNode node);
  /// Moves all values in the node so many layers up.
  void raise(int layers);
  /// The latest layer among this node and all below it.
  int layer() const;
  /// Type and value for messages: "integer 3", "string 'x'", "table".
  std::string describe() const;
  /// The value in one line, as in TOML: 0.5, "x", [1, 2], {a = 1}.
  std::string literal() const;

  /// Same value, wherever it was written and in whatever order the keys of a
  /// table were; an integer is no double.
  bool operator==(const ConfigNode& other) const;
};

/// The layers of overrides and of a sweep's cells: files never are as many.
inline constexpr int kCommandLineLayer = 1'000'000;
inline constexpr int kCellLayer = 2'000'000;

/// The shortest text that reads back as the same double and is no integer:
/// "1.0", "1e-05", "nan", "-inf".
std::string number_text(double value);

/// `text` in double quotes, with TOML's escapes where they are needed.
std::string toml_string(std::string_view text);

/// A key as TOML wants it: quoted when it is not letters, digits, - and _.
std::string key_text(std::string_view key);

}  // namespace sluice
