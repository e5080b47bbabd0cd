#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "experiments/api/layer_factory.h"
#include "lib/blocks/layer.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Draws for all layers that a factory makes. Any thread may use it.
class LayerDraws {
 public:
  /// turn: held while any layer of the model is made.
  LayerDraws(LayerFactory factory, std::shared_ptr<std::recursive_mutex> turn);

  /// A new layer of the factory, whatever its weights.
  std::shared_ptr<Layer> make() const;
  /// Tensors of the layer that the factory makes when the process-wide
  /// generator begins with that key. Drawn anew only where no recent call had
  /// that key.
  NamedTensors with_key(std::uint64_t key);

 private:
  LayerFactory factory_;
  std::shared_ptr<std::recursive_mutex> turn_;
  std::map<std::uint64_t, NamedTensors> drawn_;  // by key
};

/// A layer of that factory whose initialise() takes such draws; parameters and
/// buffers keep their names.
std::shared_ptr<Layer> make_drawn_layer(std::shared_ptr<LayerDraws> draws);

/// The layer's parameters and buffers.
NamedTensors tensors_of_layer(const torch::nn::Module& layer);
NamedTensors copies_of_tensors(const NamedTensors& tensors);

}  // namespace sluice
