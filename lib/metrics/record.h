#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace sluice {

/// One line of metrics: named values, in the order in which they were set.
struct Record {
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  std::vector<std::pair<std::string, Value>> values = {};

  void set(std::string_view name, Value value);
  const Value* find(std::string_view name) const;
  /// The value as a number; `otherwise` when it is absent or no number.
  double number(std::string_view name, double otherwise) const;
  /// The same as a whole number, cut off.
  std::int64_t integer(std::string_view name, std::int64_t otherwise = 0) const;
  /// The value as a text; empty when it is absent or no text.
  std::string text(std::string_view name) const;
};

/// As a line of JSON without a line break, and back. NaN and infinities are
/// written as the strings "nan", "inf", "-inf".
std::string to_json(const Record& record);
Record record_from_json(std::string_view line);

}  // namespace sluice
