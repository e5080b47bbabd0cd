#include "experiments/sweep/file/axis_text.h"

#include <array>
#include <cstddef>
#include <utility>
#include <variant>

#include "experiments/config/files/overrides.h"
#include "lib/base/error.h"

namespace sluice::sweep {
namespace {

constexpr std::string_view kIf = " if ";

/// Walks over a text, knowing what is inside brackets or quotes.
class Nesting {
 public:
  /// Whether the next character is outside of brackets and quotes.
  bool is_outside(char c) {
    if (quote_ != 0) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\' && quote_ == '"')
        escaped_ = true;
      else if (c == quote_)
        quote_ = 0;
      return false;
    }
    if (c == '"' || c == '\'') {
      quote_ = c;
      return false;
    }
    if (c == '[' || c == '{' || c == '(') ++depth_;
    if (c == ']' || c == '}' || c == ')') --depth_;
    return depth_ == 0;
  }

 private:
  char quote_ = 0;
  bool escaped_ = false;
  int depth_ = 0;
};

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(
      text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

/// Position of an " if " that is no part of a value.
std::size_t condition_at(std::string_view text) {
  Nesting nesting;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (nesting.is_outside(text[i]) && text.substr(i).starts_with(kIf))
      return i;
  return std::string_view::npos;
}

std::pair<std::string, std::string_view> key_and_rest(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string key = trimmed(text.substr(0, equals));
  if (equals == std::string_view::npos || key.empty())
    throw UserError("command line: '{}' is neither key=value nor key=a,b,c",
                    text);
  return {key, text.substr(equals + 1)};
}

double number_in(const std::string& text, const std::string& key) {
  const ConfigNode node = override_value(text, key);
  if (const auto* whole = std::get_if<std::int64_t>(&node.value))
    return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&node.value)) return *number;
  throw UserError("command line: {}: '{}' is no number", key, text);
}

std::optional<Range> range_of_text(const std::string& text,
                                   const std::string& key) {
  constexpr std::array<std::pair<std::string_view, Range::Kind>, 3> kKinds = {
      {{"uniform(", Range::Kind::uniform},
       {"log_uniform(", Range::Kind::log_uniform},
       {"int(", Range::Kind::integer}}};
  for (const auto& [name, kind] : kKinds) {
    if (!text.starts_with(name) || !text.ends_with(')')) continue;
    const auto ends = split_values(std::string_view(text).substr(
        name.size(), text.size() - name.size() - 1));
    if (ends.size() != 2)
      throw UserError("command line: {}: '{}' wants a low and a high end", key,
                      text);
    return Range{kind, number_in(ends[0], key), number_in(ends[1], key)};
  }
  return std::nullopt;
}

std::vector<ConfigNode> values_of(const std::vector<std::string>& texts,
                                  const std::string& key) {
  std::vector<ConfigNode> values;
  for (const std::string& text : texts) {
    if (text.empty())
      throw UserError(
          "command line: {}: there is nothing between two commas, or behind "
          "the last",
          key);
    values.push_back(override_value(text, key));
  }
  return values;
}

}  // namespace

std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> parts;
  Nesting nesting;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (nesting.is_outside(text[i]) && text[i] == ',') {
      parts.push_back(trimmed(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  parts.push_back(trimmed(text.substr(begin)));
  return parts;
}

std::optional<Axis> axis_of_text(std::string_view text) {
  auto [key, rest] = key_and_rest(text);
  Axis axis{.key = key};
  const std::size_t condition = condition_at(rest);
  if (condition != std::string_view::npos) {
    axis.when = when_of_text(rest.substr(condition + kIf.size()));
    rest = rest.substr(0, condition);
  }
  const std::vector<std::string> parts = split_values(rest);
  if (parts.size() == 1) axis.range = range_of_text(parts[0], key);
  if (axis.range) return axis;
  if (parts.size() == 1 && !axis.when) return std::nullopt;
  axis.values = values_of(parts, key);
  return axis;
}

AxisCondition when_of_text(std::string_view text) {
  const auto [key, rest] = key_and_rest(text);
  return {key, values_of(split_values(rest), key)};
}

}  // namespace sluice::sweep
