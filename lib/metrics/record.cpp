#include "lib/metrics/record.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include <nlohmann/json.hpp>

#include "lib/base/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

/// The value under `name`, or nullptr; const when `values` is.
template <class Pairs>
auto* find_value(Pairs& values, std::string_view name) {
  decltype(&values.front().second) found = nullptr;
  for (auto& [key, value] : values) {
    if (key == name) found = &value;
  }
  return found;
}

struct JsonVisitor {
  Json operator()(double value) const {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    return value;
  }
  template <class T>
  Json operator()(const T& value) const {
    return value;
  }
};

Record::Value text_value(const std::string& text) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return infinity;
  if (text == "-inf") return -infinity;
  return text;
}

Record::Value from_json(const std::string& name, const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return text_value(json.get<std::string>());
  // What exceeds int64 is kept as the nearest double.
  const bool too_large =
      json.is_number_unsigned() &&
      json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
  if (too_large) return json.get<double>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  throw UserError(
      "metrics: '{}': expected a number, a string or a boolean, found {}", name,
      json.type_name());
}

Json parsed(std::string_view line) {
  try {
    return Json::parse(line);
  } catch (const Json::parse_error& error) {
    throw UserError("metrics: a line is no JSON: byte {} of it is wrong",
                    error.byte);
  } catch (const Json::exception&) {
    throw UserError("metrics: a line is no JSON: it has a number out of range");
  }
}

}  // namespace

void Record::set(std::string_view name, Value value) {
  if (Value* old = find_value(values, name)) {
    *old = std::move(value);
  } else {
    values.emplace_back(std::string(name), std::move(value));
  }
}

const Record::Value* Record::find(std::string_view name) const {
  return find_value(values, name);
}

bool Record::is_of(std::string_view kind) const {
  const Value* value = find("kind");
  const auto* text = value ? std::get_if<std::string>(value) : nullptr;
  return text != nullptr && *text == kind;
}

double Record::number(std::string_view name, double otherwise) const {
  if (const Value* value = find(name)) fields::read(*value, otherwise);
  return otherwise;
}

std::int64_t Record::integer(std::string_view name,
                             std::int64_t otherwise) const {
  if (const Value* value = find(name)) fields::read(*value, otherwise);
  return otherwise;
}

std::string Record::text(std::string_view name) const {
  std::string text;
  if (const Value* value = find(name)) fields::read(*value, text);
  return text;
}

namespace fields {

std::string_view next_name(std::string_view& names) {
  constexpr std::string_view kBetween = ", ";
  const std::size_t end = std::min(names.find(kBetween), names.size());
  const std::string_view name = names.substr(0, end);
  names.remove_prefix(std::min(end + kBetween.size(), names.size()));
  return name;
}

bool is_listed(std::string_view name, std::string_view names) {
  while (!names.empty())
    if (next_name(names) == name) return true;
  return false;
}

bool read(const Record::Value& value, double& to) {
  if (const auto* number = std::get_if<double>(&value)) {
    to = *number;
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    to = static_cast<double>(*integer);
  } else {
    return false;
  }
  return true;
}

bool read(const Record::Value& value, std::int64_t& to) {
  constexpr double kEnd = 0x1p63;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    to = *integer;
    return true;
  }
  const auto* number = std::get_if<double>(&value);
  if (number == nullptr || !(*number >= -kEnd && *number < kEnd)) return false;
  to = static_cast<std::int64_t>(*number);
  return true;
}

bool read(const Record::Value& value, int& to) {
  std::int64_t whole = 0;
  if (!read(value, whole) || !std::in_range<int>(whole)) return false;
  to = static_cast<int>(whole);
  return true;
}

bool read(const Record::Value& value, std::string& to) {
  const auto* text = std::get_if<std::string>(&value);
  if (text != nullptr) to = *text;
  return text != nullptr;
}

}  // namespace fields

std::string to_json(const Record& record) {
  Json json = Json::object();
  for (const auto& [name, value] : record.values) {
    json[name] = std::visit(JsonVisitor{}, value);
  }
  // A name or text that is no UTF-8 must not stop a run.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Record record_from_json(std::string_view line) {
  const Json json = parsed(line);
  if (!json.is_object()) {
    throw UserError("metrics: expected an object, found {}", json.type_name());
  }
  Record record;
  for (const auto& [name, value] : json.items()) {
    record.set(name, from_json(name, value));
  }
  return record;
}

}  // namespace sluice
