#include "experiments/config/files/interpolation.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/config/files/nesting.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"

namespace sluice {
namespace {

constexpr std::string_view kReference = "${";

/// References that refer to references grow exponentially.
constexpr std::size_t kLongestString = 65'536;
constexpr std::size_t kMostReferences = 64;

/// What a config writes: "optimizer.lr", "model.hidden".
void collect_keys(const ConfigNode& node, const std::string& path,
                  std::vector<std::string>& keys) {
  const auto* table = std::get_if<ConfigNode::Table>(&node.value);
  if (table == nullptr) return;
  for (const auto& [name, below] : *table) {
    keys.push_back(path.empty() ? name : path + "." + name);
    collect_keys(below, std::string(keys.back()), keys);
  }
}

class Interpolation {
 public:
  explicit Interpolation(const ConfigNode& root) : root_(root) {}

  /// Follows the references in a value. `path` is for messages.
  ConfigNode resolved(const ConfigNode& node, const std::string& path) {
    if (++values_ > kMostValues)
      throw UserError(
          "{}: {}: the config, with what it refers to, has more than {} "
          "values",
          node.origin.text(), path, kMostValues);
    if (const auto* text = std::get_if<std::string>(&node.value))
      return of_string(*text, node, path);
    if (const auto* array = std::get_if<ConfigNode::Array>(&node.value)) {
      ConfigNode::Array all;
      for (const ConfigNode& element : *array)
        all.push_back(
            resolved(element, fmt::format("{}[{}]", path, all.size())));
      return {std::move(all), node.origin};
    }
    if (const auto* table = std::get_if<ConfigNode::Table>(&node.value)) {
      ConfigNode::Table all;
      for (const auto& [name, below] : *table)
        all.emplace_back(
            name, resolved(below, path.empty() ? name : path + "." + name));
      return {std::move(all), node.origin};
    }
    return node;
  }

 private:
  ConfigNode of_string(const std::string& text, const ConfigNode& node,
                       const std::string& path) {
    std::string all;
    for (std::size_t at = 0;;) {
      const std::size_t open = text.find(kReference, at);
      all.append(text, at, open - at);  // npos: the rest
      if (open == std::string::npos) break;
      if (open > at && text[open - 1] == '$') {  // $${
        all += '{';
        at = open + kReference.size();
        continue;
      }
      const std::size_t close = text.find('}', open);
      if (close == std::string::npos)
        throw UserError(
            "{}: {}: '${{' has no '}}'; write $${{ for these characters",
            node.origin.text(), path);
      const std::string key = text.substr(open + kReference.size(),
                                          close - open - kReference.size());
      ConfigNode value = value_of(key, node, path);
      at = close + 1;
      if (open == 0 && at == text.size()) return value;
      all += text_of(value, key, node, path);
      if (all.size() > kLongestString)
        throw UserError("{}: {}: comes to more than {} bytes",
                        node.origin.text(), path, kLongestString);
    }
    return {std::move(all), node.origin};
  }

  ConfigNode value_of(const std::string& key, const ConfigNode& node,
                      const std::string& path) {
    if (std::find(open_.begin(), open_.end(), key) != open_.end())
      throw UserError("{}: {}: refers to itself: {} -> {}", node.origin.text(),
                      path, fmt::join(open_, " -> "), key);
    if (open_.size() >= kMostReferences)
      throw UserError("{}: {}: leads through more than {} references",
                      node.origin.text(), path, kMostReferences);
    const ConfigNode* found = find(key);
    if (found == nullptr) {
      std::vector<std::string> keys;
      collect_keys(root_, "", keys);
      throw UserError(
          "{}: {}: refers to '{}', which the config doesn't say{}; a key that "
          "has its default must be written to be referred to",
          node.origin.text(), path, key, perhaps(key, keys));
    }
    open_.push_back(key);
    ConfigNode value = resolved(*found, key);
    open_.pop_back();
    value.origin = node.origin;
    return value;
  }

  static std::string text_of(const ConfigNode& value, const std::string& key,
                             const ConfigNode& node, const std::string& path) {
    if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
    if (std::holds_alternative<ConfigNode::Table>(value.value) ||
        std::holds_alternative<ConfigNode::Array>(value.value))
      throw UserError(
          "{}: {}: '{}' is a {}, which can't be part of a string; a string "
          "that is nothing but ${{{}}} stands for it",
          node.origin.text(), path, key, value.describe(), key);
    return value.literal();
  }

  const ConfigNode* find(std::string_view key) const {
    const ConfigNode* node = &root_;
    while (node != nullptr && !key.empty()) {
      const std::size_t dot = key.find('.');
      node = node->find(key.substr(0, dot));
      key = dot == std::string_view::npos ? "" : key.substr(dot + 1);
    }
    return node == &root_ ? nullptr : node;
  }

  const ConfigNode& root_;
  std::vector<std::string> open_;  // references on the way to the value at hand
  std::size_t values_ = 0;
};

void escape_references(ConfigNode& node) {
  if (auto* text = std::get_if<std::string>(&node.value)) {
    for (std::size_t at = text->find(kReference); at != std::string::npos;
         at = text->find(kReference, at + kReference.size() + 1))
      text->insert(at, 1, '$');
  } else if (auto* array = std::get_if<ConfigNode::Array>(&node.value)) {
    for (ConfigNode& element : *array) escape_references(element);
  } else if (auto* table = std::get_if<ConfigNode::Table>(&node.value)) {
    for (auto& [name, below] : *table) escape_references(below);
  }
}

}  // namespace

ConfigNode interpolated(const ConfigNode& config) {
  return Interpolation(config).resolved(config, "");
}

ConfigNode without_references(ConfigNode config) {
  escape_references(config);
  return config;
}

}  // namespace sluice
