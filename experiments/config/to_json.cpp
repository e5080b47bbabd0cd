#include "experiments/config/to_json.h"

#include <variant>

namespace sluice {
namespace {

struct ToJson {
  using Json = nlohmann::ordered_json;

  Json operator()(std::monostate) const { return nullptr; }
  template <class Plain>
  Json operator()(const Plain& value) const {
    return value;
  }
  Json operator()(const ConfigNode::Array& value) const {
    Json list = Json::array();
    for (const ConfigNode& node : value) list.push_back(to_json(node));
    return list;
  }
  Json operator()(const ConfigNode::Table& value) const {
    Json table = Json::object();
    for (const auto& [key, node] : value) table[key] = to_json(node);
    return table;
  }
};

}  // namespace

nlohmann::ordered_json to_json(const ConfigNode& node) {
  return std::visit(ToJson(), node.value);
}

}  // namespace sluice
