#include "experiments/config/files/toml.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "experiments/config/files/nesting.h"
#include "lib/base/error.h"
#include "lib/base/files/read_file.h"

namespace sluice {
namespace {

/// Limit of a config's size, far above any of ours.
constexpr std::uint64_t kMostTomlBytes = std::uint64_t{16} << 20;

/// Makes our tree from toml++'s, which sorts its keys by name.
class Converter {
 public:
  explicit Converter(const std::string& name) : name_(name) {}

  ConfigNode node(const toml::node& from, std::string_view key, int line,
                  int depth = 0) const {
    if (depth > kDeepestNesting)
      throw UserError("{}:{}: {}: is nested more than {} deep", name_, line,
                      key, kDeepestNesting);
    return {value(from, key, line, depth), {name_, line}};
  }

 private:
  ConfigNode::Value value(const toml::node& from, std::string_view key,
                          int line, int depth) const {
    if (const auto* table = from.as_table()) return entries(*table, depth);
    if (const auto* array = from.as_array())
      return elements(*array, key, depth);
    if (const auto* text = from.as_string()) return text->get();
    if (const auto* integer = from.as_integer()) return integer->get();
    if (const auto* number = from.as_floating_point()) return number->get();
    if (const auto* flag = from.as_boolean()) return flag->get();
    throw UserError(
        "{}:{}: {}: dates and times are not supported; a string needs quotes",
        name_, line, key);
  }

  /// Refuses keys that are too long: look-ups in a table take time in
  /// proportion to them.
  void check_keys(const toml::table& table) const {
    for (auto&& [key, node] : table)
      if (key.str().size() > kLongestKey)
        throw UserError("{}:{}: the key '{:.60}...' has more than {} bytes",
                        name_, key.source().begin.line, key.str(), kLongestKey);
    if (table.size() > kMostKeys)
      throw UserError("{}:{}: a table has {} keys; at most {} are allowed",
                      name_, table.source().begin.line, table.size(),
                      kMostKeys);
  }

  ConfigNode::Table entries(const toml::table& from, int depth) const {
    check_keys(from);
    std::vector<std::pair<const toml::key*, const toml::node*>> sorted;
    for (auto&& [key, node] : from) sorted.emplace_back(&key, &node);
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      const auto at = [](const toml::key& key) {
        return std::pair(key.source().begin.line, key.source().begin.column);
      };
      return at(*a.first) < at(*b.first);
    });
    ConfigNode::Table result;
    for (const auto& [key, child] : sorted) {
      const int line = static_cast<int>(key->source().begin.line);
      result.emplace_back(key->str(),
                          node(*child, key->str(), line, depth + 1));
    }
    return result;
  }

  ConfigNode::Array elements(const toml::array& from, std::string_view key,
                             int depth) const {
    if (from.size() > kMostElements)
      throw UserError("{}:{}: {}: a list has {} values; at most {} are allowed",
                      name_, from.source().begin.line, key, from.size(),
                      kMostElements);
    ConfigNode::Array result;
    for (const toml::node& child : from) {
      const int line = static_cast<int>(child.source().begin.line);
      result.push_back(node(child, key, line, depth + 1));
    }
    return result;
  }

  const std::string& name_;
};

bool is_table(const ConfigNode& node) {
  return std::holds_alternative<ConfigNode::Table>(node.value);
}

/// The elements when `node` is to be written as [[tables]], else nullptr.
const ConfigNode::Array* tables_of(const ConfigNode& node) {
  const auto* array = std::get_if<ConfigNode::Array>(&node.value);
  if (array == nullptr || array->empty()) return nullptr;
  return std::all_of(array->begin(), array->end(), is_table) ? array : nullptr;
}

bool is_plain(const ConfigNode& node) {
  return !is_table(node) && tables_of(node) == nullptr;
}

/// Whether the header of a table can't be left out: those of the tables below
/// make it too.
bool needs_header(const ConfigNode::Table& table) {
  return table.empty() ||
         std::any_of(table.begin(), table.end(),
                     [](const auto& entry) { return is_plain(entry.second); });
}

void write_header(std::string& out, std::string_view header) {
  if (!out.empty()) out += '\n';
  out += header;
  out += '\n';
}

void write_table(std::string& out, const ConfigNode::Table& table,
                 const std::string& path) {
  for (const auto& [key, node] : table) {
    if (!is_plain(node)) continue;
    SLUICE_CHECK(!std::holds_alternative<std::monostate>(node.value),
                 "'{}{}' has no value", path, key);
    out += fmt::format("{} = {}\n", key_text(key), node.literal());
  }
  for (const auto& [key, node] : table) {
    const std::string name = path + key_text(key);
    if (const auto* below = std::get_if<ConfigNode::Table>(&node.value)) {
      if (needs_header(*below)) write_header(out, fmt::format("[{}]", name));
      write_table(out, *below, name + '.');
    } else if (const auto* rows = tables_of(node)) {
      for (const ConfigNode& row : *rows) {
        write_header(out, fmt::format("[[{}]]", name));
        write_table(out, std::get<ConfigNode::Table>(row.value), name + '.');
      }
    }
  }
}

}  // namespace

ConfigNode read_toml_file(const std::string& path) {
  return parse_toml(read_file(path, kMostTomlBytes), path);
}

ConfigNode parse_toml(std::string_view text, const std::string& name) {
  check_toml_nesting(text, name);
  try {
    const toml::table root = toml::parse(text, std::string_view(name));
    return Converter(name).node(root, "", 1);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    throw UserError("{}:{}:{}: {}", name, at.line, at.column,
                    error.description());
  }
}

std::string to_toml(const ConfigNode& root) {
  std::string out;
  if (std::holds_alternative<std::monostate>(root.value)) return out;
  const auto* table = std::get_if<ConfigNode::Table>(&root.value);
  SLUICE_CHECK(table != nullptr, "a TOML file is a table, not a {}",
               root.describe());
  write_table(out, *table, "");
  return out;
}

}  // namespace sluice
