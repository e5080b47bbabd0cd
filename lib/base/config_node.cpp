#include "lib/base/config_node.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Longer strings are cut in messages.
constexpr std::size_t kShownCharacters = 60;

/// Parts of a dotted key: trees are walked by recursion.
constexpr std::ptrdiff_t kMostParts = 64;

/// Whether TOML takes `key` without quotes.
bool is_bare(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

/// Appends the elements of `items`, each as `text` says, with commas.
template <class Items, class Text>
std::string listed(const Items& items, Text text) {
  std::string result;
  for (const auto& item : items) {
    if (!result.empty()) result += ", ";
    result += text(item);
  }
  return result;
}

struct Literal {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const {
    return fmt::format("{}", value);
  }
  std::string operator()(double value) const { return number_text(value); }
  std::string operator()(const std::string& value) const {
    return toml_string(value);
  }
  std::string operator()(const ConfigNode::Array& value) const {
    return fmt::format("[{}]", listed(value, [](const ConfigNode& node) {
                         return node.literal();
                       }));
  }
  std::string operator()(const ConfigNode::Table& value) const {
    return fmt::format("{{{}}}", listed(value, [](const auto& entry) {
                         return fmt::format("{} = {}", key_text(entry.first),
                                            entry.second.literal());
                       }));
  }
};

struct Description {
  std::string operator()(std::monostate) const { return "nothing"; }
  std::string operator()(bool value) const {
    return fmt::format("boolean {}", value);
  }
  std::string operator()(std::int64_t value) const {
    return fmt::format("integer {}", value);
  }
  std::string operator()(double value) const {
    return "number " + number_text(value);
  }
  std::string operator()(const std::string& value) const {
    if (value.size() <= kShownCharacters) {
      return fmt::format("string '{}'", value);
    }
    return fmt::format("string '{}...'", value.substr(0, kShownCharacters));
  }
  std::string operator()(const ConfigNode::Array& value) const {
    return fmt::format("list of {} value{}", value.size(),
                       value.size() == 1 ? "" : "s");
  }
  std::string operator()(const ConfigNode::Table&) const { return "table"; }
};

ConfigNode* find_in(ConfigNode::Table& table, std::string_view key) {
  for (auto& [name, node] : table) {
    if (name == key) return &node;
  }
  return nullptr;
}

bool same_table(const ConfigNode::Table& a, const ConfigNode& b) {
  return std::all_of(a.begin(), a.end(), [&](const auto& entry) {
    const ConfigNode* other = b.find(entry.first);
    return other != nullptr && *other == entry.second;
  });
}

}  // namespace

std::string Origin::text() const {
  if (file.empty()) return "default";
  if (line == 0) return file;
  return fmt::format("{}:{}", file, line);
}

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  // Digits and a sign alone would read back as an integer.
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string key_text(std::string_view key) {
  return is_bare(key) ? std::string(key) : toml_string(key);
}

const ConfigNode* ConfigNode::find(std::string_view key) const {
  const Table* table = std::get_if<Table>(&value);
  if (table == nullptr) return nullptr;
  for (const auto& [name, node] : *table) {
    if (name == key) return &node;
  }
  return nullptr;
}

void ConfigNode::set(std::string_view key, ConfigNode node) {
  if (std::holds_alternative<std::monostate>(value)) value = Table{};
  Table* table = std::get_if<Table>(&value);
  SLUICE_CHECK(table != nullptr, "'{}' set in {}", key, describe());
  if (ConfigNode* old = find_in(*table, key)) {
    if (node.origin.layer > old->origin.layer) {
      const bool is_same = node == *old;
      if (is_same) node.origin.layer = old->origin.layer;
      node.origin.replaces = !is_same || old->origin.replaces;
    }
    *old = std::move(node);
  } else {
    table->emplace_back(std::string(key), std::move(node));
  }
}

void ConfigNode::set_path(std::string_view path, ConfigNode node) {
  const auto dots = std::count(path.begin(), path.end(), '.');
  if (dots >= kMostParts) {
    throw UserError("{}: the key '{}...' has {} parts; at most {} are allowed",
                    node.origin.text(), path.substr(0, kShownCharacters),
                    dots + 1, kMostParts);
  }
  const std::size_t dot = path.find('.');
  const std::string_view key = path.substr(0, dot);
  if (key.empty()) {
    throw UserError("{}: a key has an empty part before '{}'",
                    node.origin.text(), path);
  }
  if (dot == std::string_view::npos) {
    set(key, std::move(node));
    return;
  }
  if (find(key) == nullptr) set(key, ConfigNode{Table{}, node.origin});
  ConfigNode* below = find_in(std::get<Table>(value), key);
  if (!std::holds_alternative<Table>(below->value)) {
    throw UserError("{}: can't set '{}' in '{}', which is no table but {} ({})",
                    node.origin.text(), path.substr(dot + 1), key,
                    below->describe(), below->origin.text());
  }
  below->set_path(path.substr(dot + 1), std::move(node));
}

void ConfigNode::raise(int layers) {
  origin.layer += layers;
  if (auto* array = std::get_if<Array>(&value))
    for (ConfigNode& element : *array) element.raise(layers);
  if (auto* table = std::get_if<Table>(&value))
    for (auto& [key, node] : *table) node.raise(layers);
}

int ConfigNode::layer() const {
  int latest = origin.layer;
  if (const auto* array = std::get_if<Array>(&value))
    for (const ConfigNode& element : *array)
      latest = std::max(latest, element.layer());
  if (const auto* table = std::get_if<Table>(&value))
    for (const auto& [key, node] : *table)
      latest = std::max(latest, node.layer());
  return latest;
}

std::string ConfigNode::describe() const {
  return std::visit(Description{}, value);
}

std::string ConfigNode::literal() const {
  return std::visit(Literal{}, value);
}

bool ConfigNode::operator==(const ConfigNode& other) const {
  const Table* table = std::get_if<Table>(&value);
  const Table* others = std::get_if<Table>(&other.value);
  if (table == nullptr || others == nullptr) return value == other.value;
  return table->size() == others->size() && same_table(*table, other);
}

}  // namespace sluice
