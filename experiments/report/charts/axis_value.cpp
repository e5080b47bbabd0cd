#include "experiments/report/charts/axis_value.h"

#include <nlohmann/json.hpp>

namespace sluice::report {
namespace {

using Json = nlohmann::ordered_json;

/// The key of a choice needs no name: what is chosen says it.
bool names_a_choice(const std::string& key) {
  return key == "policy" || key == "name";
}

void add_parts(const Json& table, const std::string& path, std::string& text) {
  for (const auto& [key, value] : table.items()) {
    std::string place = path;
    if (!names_a_choice(key)) place += (path.empty() ? "" : ".") + key;
    if (value.is_object()) {
      add_parts(value, place, text);
      continue;
    }
    text += text.empty() ? "" : ", ";
    if (!place.empty()) text += place + "=";
    text += value.is_string() ? value.get<std::string>() : value.dump();
  }
}

}  // namespace

std::string readable_value(const std::string& value) {
  const Json json = Json::parse(value, nullptr, false);
  if (!json.is_object()) return value;
  std::string text;
  add_parts(json, "", text);
  return text.empty() ? value : text;
}

}  // namespace sluice::report
