#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "experiments/api/layer_factory.h"
#include "lib/blocks/block.h"

namespace sluice {

/// A model made from the user's factories.
struct OwnModel {
  /// The model, whose layers, wherever and however often they are made, get the
  /// weights of `layers`, which were made here once. Making one leaves the
  /// process-wide generator as it was. May be made in several threads, one at a
  /// time.
  Model model = {};
  Layers layers = {};
  /// Mutex that is held while a layer is made.
  std::shared_ptr<std::recursive_mutex> turn = {};
};

/// Makes every layer once and runs the example through them, to find the shapes
/// of their outputs. `example`: a batch [N, ...] of float32, or of int64 tokens
/// [N, T]; its numbers don't matter. Throws UserError naming the layer that
/// can't take its input, draws from the process-wide generator, or can't be
/// made.
OwnModel make_own_model(const std::vector<LayerFactory>& factories,
                        const at::Tensor& example);

/// Model for a run whose loop is Sluice's: its layers get weights that the
/// factories draw from LibTorch's process-wide generator with the key of
/// the run's seed and the layer, so that they follow from the seed, on every
/// engine. Model::draw() of the seed is called before threads make layers.
Model model_drawn_by_seed(const std::vector<LayerFactory>& factories,
                          const OwnModel& own);

/// The sizes of each layer's output and its number of weights, "[8, 6, 6] 80;
/// ...": what programs with other layers differ in.
std::string describe_layers(const OwnModel& own);

}  // namespace sluice
