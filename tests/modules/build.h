#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/layer.h"
#include "modules/models.h"

namespace sluice {

using Layers = std::vector<std::shared_ptr<Layer>>;

/// The model of that name, for 28x28 grey images unless told otherwise.
inline Model build_model(std::string_view name, const ConfigNode& options = {},
                         const SampleSpec& sample = {{1, 28, 28}, 10}) {
  Fields fields(&options, "model");
  const MakeModel make = find_row(models(), name, "model").make(fields);
  fields.finish();
  return make(sample);
}

inline ConfigNode table(
    std::vector<std::pair<std::string, ConfigNode::Value>> entries) {
  ConfigNode node;
  for (auto& [key, value] : entries)
    node.set(key, ConfigNode{.value = std::move(value)});
  return node;
}

inline ConfigNode::Array list(const std::vector<std::int64_t>& values) {
  ConfigNode::Array array;
  for (const std::int64_t value : values) array.emplace_back().value = value;
  return array;
}

/// A layer with the weights of its place in the uncut model.
inline std::shared_ptr<Layer> make_layer(const Model& model, std::size_t i) {
  std::shared_ptr<Layer> layer = model.layers[i].make();
  layer->initialise(random_key({1, i}));
  return layer;
}

inline at::Tensor run_layer(Layer& layer, std::size_t i,
                            const at::Tensor& input, Pass pass) {
  pass.layer = static_cast<std::int64_t>(i);
  return layer.forward({input}, pass).front();
}

}  // namespace sluice
