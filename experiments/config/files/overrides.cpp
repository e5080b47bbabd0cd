#include "experiments/config/files/overrides.h"

#include <cstddef>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "experiments/config/files/common_keys.h"
#include "experiments/config/files/toml.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::string_view kOrigin = "command line";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

void set_origin(ConfigNode& node) {
  node.origin = {std::string(kOrigin), 0, kCommandLineLayer};
  if (auto* array = std::get_if<ConfigNode::Array>(&node.value)) {
    for (ConfigNode& element : *array) set_origin(element);
  } else if (auto* table = std::get_if<ConfigNode::Table>(&node.value)) {
    for (auto& [key, child] : *table) set_origin(child);
  }
}

/// A text that may be long, as messages show it.
std::string shortened(std::string_view text) {
  constexpr std::size_t kMost = 100;
  if (text.size() <= kMost) return std::string(text);
  return std::string(text.substr(0, kMost)) + "...";
}

/// The part of an error of parse_toml("value", ...) that follows the position.
std::string reason(const UserError& error) {
  const std::string text = error.what();
  return text.substr(text.find(": ") + 2);
}

/// The value of the TOML text `text`. Throws UserError when it is none.
ConfigNode toml_value(std::string_view text) {
  const ConfigNode root = parse_toml(fmt::format("value = {}", text), "value");
  if (std::get<ConfigNode::Table>(root.value).size() != 1) {
    throw UserError("value: it has more than one line");
  }
  return *root.find("value");
}

/// Whether a text begins like TOML, and so isn't meant to be a plain string.
bool looks_like_toml(std::string_view text) {
  return !text.empty() &&
         std::string_view("[{\"'").find(text.front()) != std::string_view::npos;
}

ConfigNode parsed(std::string_view text, std::string_view key) {
  try {
    return toml_value(text);
  } catch (const UserError& error) {
    if (looks_like_toml(text)) {
      throw UserError("{}: {}: '{}' is no TOML value: {}", kOrigin,
                      shortened(key), shortened(text), reason(error));
    }
  }
  try {  // Through the parser again, which refuses what is no UTF-8.
    return toml_value(toml_string(text));
  } catch (const UserError& error) {
    throw UserError("{}: {}: {}", kOrigin, shortened(key), reason(error));
  }
}

}  // namespace

void apply_override(ConfigNode& root, std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    throw UserError("{}: '{}' is no override; write it as key=value", kOrigin,
                    shortened(text));
  }
  const std::string_view key = trimmed(text.substr(0, equals));
  if (key.empty() || key.front() == '.' || key.back() == '.' ||
      key.find("..") != std::string_view::npos) {
    throw UserError(
        "{}: '{}' has a key with an empty part; write it as "
        "a.b.c=value",
        kOrigin, shortened(text));
  }
  set_for_all(root, key, override_value(text.substr(equals + 1), key));
}

ConfigNode override_value(std::string_view text, std::string_view key) {
  ConfigNode value = parsed(trimmed(text), key);
  set_origin(value);
  return value;
}

}  // namespace sluice
