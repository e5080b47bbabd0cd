#include "lib/metrics/record.h"

#include <cmath>
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

struct ToJson {
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

std::int64_t Record::integer(std::string_view name,
                             std::int64_t otherwise) const {
  return static_cast<std::int64_t>(
      number(name, static_cast<double>(otherwise)));
}

double Record::number(std::string_view name, double otherwise) const {
  const Value* value = find(name);
  if (value == nullptr) return otherwise;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* integer = std::get_if<std::int64_t>(value)) {
    return static_cast<double>(*integer);
  }
  return otherwise;
}

std::string Record::text(std::string_view name) const {
  const Value* value = find(name);
  const auto* text = value ? std::get_if<std::string>(value) : nullptr;
  return text ? *text : std::string();
}

std::string to_json(const Record& record) {
  Json json = Json::object();
  for (const auto& [name, value] : record.values) {
    json[name] = std::visit(ToJson{}, value);
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
