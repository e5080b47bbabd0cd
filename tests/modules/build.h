#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/blocks/block.h"
#include "lib/blocks/layer.h"
#include "modules/models.h"

namespace sluice {

/// The model of that name, for 28x28 grey images unless told otherwise.
inline Model build_model(std::string_view name, const ConfigNode& options = {},
                         const SampleSpec& sample = {{1, 28, 28}, 10}) {
  return make_model(name, sample, options);
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
  const auto index = static_cast<std::int64_t>(i);
  return make_layers(model, index, index, 1).front();
}

/// The whole model as one block.
inline Block make_block(const Model& model, std::uint64_t seed,
                        MemoryFormat format = MemoryFormat::contiguous) {
  return make_block(model, 1, 0, std::ssize(model.layers) - 1, seed, format);
}

/// Weights of the uncut model, by the names that checkpoints use.
NamedTensors initial_weights(const Model& model, std::uint64_t seed = 1);
std::vector<std::string> parameter_names(const Model& model);
std::int64_t parameter_count(const Model& model);

inline std::vector<SampleShape> shapes(const Model& model) {
  std::vector<SampleShape> found;
  for (const LayerSpec& layer : model.layers) found.push_back(layer.output);
  return found;
}

/// What the model takes: noise, or random tokens.
at::Tensor samples(const Model& model, std::int64_t count = 4);

/// The outputs, and the gradients of the sum of their squares: of parameters
/// under their names, from the first layer up, then of the samples.
struct Outcome {
  at::Tensor outputs;
  NamedTensors gradients;
};

/// Runs blocks that begin at the layers `starts`, made from the top down, as
/// workers do: only copies of tensors pass from one to the next, up and down.
Outcome run_blocks(const Model& model, const std::vector<std::int64_t>& starts,
                   const Pass& pass);

}  // namespace sluice
