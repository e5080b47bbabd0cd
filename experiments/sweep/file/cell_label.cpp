#include "experiments/sweep/file/cell_label.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <variant>

#include <fmt/format.h>

namespace sluice::sweep {
namespace {

constexpr std::size_t kLongestPart = 24;
constexpr std::size_t kLongestName = 80;

std::string text_under(const ConfigNode& table, std::string_view key) {
  const ConfigNode* node = table.find(key);
  const auto* text =
      node == nullptr ? nullptr : std::get_if<std::string>(&node->value);
  return text == nullptr ? "" : *text;
}

std::string last_part(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

/// The text's letters, digits, '.' and '-', with a single '_' for all else.
std::string plain(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                          c == '.' || c == '-' || c == '+';
    if (is_plain)
      name += c;
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  name.resize(std::min(name.size(), kLongestPart));
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

}  // namespace

std::string value_text(const ConfigNode& value,
                       const std::vector<ConfigNode>& all) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
  if (const auto* number = std::get_if<double>(&value.value)) {
    const bool is_drawn = std::find(all.begin(), all.end(), value) == all.end();
    return is_drawn ? fmt::format("{:.4g}", *number)
                    : fmt::format("{}", *number);
  }
  for (const char* key : {"policy", "name"}) {
    std::string name = text_under(value, key);
    const bool is_shared =
        std::any_of(all.begin(), all.end(), [&](const ConfigNode& other) {
          return text_under(other, key) == name && other != value;
        });
    if (!name.empty() && !is_shared) return name;
  }
  return value.literal();
}

std::vector<std::string> short_names(const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  for (const std::string& key : keys) {
    const auto same =
        std::count_if(keys.begin(), keys.end(), [&](const std::string& other) {
          return last_part(other) == last_part(key);
        });
    names.push_back(same == 1 ? last_part(key) : key);
  }
  return names;
}

std::string label_of(const Cell& cell, const std::vector<std::string>& keys,
                     const std::vector<std::string>& names) {
  std::string label;
  for (std::size_t i = 0; i < cell.values.size(); ++i) {
    const auto key = std::find(keys.begin(), keys.end(), cell.values[i].first);
    label += fmt::format("{}{}={}", label.empty() ? "" : ", ",
                         names.at(static_cast<std::size_t>(key - keys.begin())),
                         cell.texts.at(i));
  }
  return label.empty() ? "all" : label;
}

std::string folder_name(const std::string& id, const Cell& cell) {
  std::string name = id;
  for (const std::string& text : cell.texts) {
    const std::string part = plain(text);
    if (!part.empty()) name += '-' + part;
  }
  name.resize(std::min(name.size(), kLongestName));
  return name;
}

}  // namespace sluice::sweep
