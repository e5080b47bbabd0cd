#include "experiments/config/files/json.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "lib/base/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 50;

struct JsonVisitor {
  Json operator()(std::monostate) const { return nullptr; }
  template <class Plain>
  Json operator()(const Plain& value) const {
    return value;
  }
  Json operator()(const ConfigNode::Array& value) const {
    Json list = Json::array();
    for (const ConfigNode& node : value) list.push_back(json_of(node));
    return list;
  }
  Json operator()(const ConfigNode::Table& value) const {
    Json table = Json::object();
    for (const auto& [key, node] : value) table[key] = json_of(node);
    return table;
  }
};

ConfigNode node_of(const Json& json, int depth);

ConfigNode table_of(const Json& json, int depth) {
  ConfigNode table = {.value = ConfigNode::Table{}};
  for (const auto& [key, value] : json.items())
    table.set(key, node_of(value, depth));
  return table;
}

ConfigNode list_of(const Json& json, int depth) {
  ConfigNode::Array list;
  for (const Json& value : json) list.push_back(node_of(value, depth));
  return {.value = std::move(list)};
}

ConfigNode integer_of(const Json& json) {
  constexpr auto kMost =
      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > kMost)
    throw UserError("{} is too large for an integer", json.dump());
  return {.value = json.get<std::int64_t>()};
}

ConfigNode node_of(const Json& json, int depth) {
  if (depth > kDeepest) throw UserError("a value is nested too deep");
  if (json.is_object()) return table_of(json, depth + 1);
  if (json.is_array()) return list_of(json, depth + 1);
  if (json.is_boolean()) return {.value = json.get<bool>()};
  if (json.is_number_integer()) return integer_of(json);
  if (json.is_number()) return {.value = json.get<double>()};
  if (json.is_string()) return {.value = json.get<std::string>()};
  throw UserError("null is no value of a config");
}

}  // namespace

Json json_of(const ConfigNode& node) {
  return std::visit(JsonVisitor(), node.value);
}

ConfigNode config_of_json(const Json& json) {
  return node_of(json, 0);
}

bool are_equal(const Json& left, const Json& right) {
  return nlohmann::json::parse(left.dump()) ==
         nlohmann::json::parse(right.dump());
}

}  // namespace sluice
