#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include <torch/nn/module.h>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/blocks/layer.h"
#include "lib/blocks/loss.h"
#include "lib/schedules/plan/traits.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// A boundary as the makers of its heads, predictors and policies see it,
/// before training. Valid while the experiment is.
struct BoundarySite {
  std::int64_t block = 1;   ///< k: the block below the boundary, from 1
  std::int64_t blocks = 1;  ///< K
  std::int64_t layer = 0;   ///< the uncut model's index of block k's last layer
  SampleShape features;     ///< of h_k: [C], [C, H, W] or [T, C]
  std::int64_t classes = 0;
  Loss loss;               ///< the run's loss, for heads that classify
  std::uint64_t seed = 0;  ///< weights are set from (seed, layer, name)
  /// The uncut model, for heads that are built from its layers; nullptr:
  /// unknown.
  const Model* model = nullptr;
  std::int64_t samples = 0;  ///< of the training split; 0: unknown
  /// Numbers of batches that an epoch takes up; 0: unknown.
  std::int64_t batches_per_epoch = 0;
};

/// What the labels at a site are: classes, where its model is unknown.
Targets targets_of(const BoundarySite& site);

/// For what looks at labels by itself, and not through the loss. Throws
/// UserError, in the name of `what` ("[predsim] block 1"), unless they are
/// classes.
void check_labels_are_classes(const BoundarySite& site, std::string_view what);

/// What a head must be given beside features and labels.
struct Needs {
  bool raw_input = false;  ///< the model's input, before it was normalised
  /// The weights of block k+1's first layer when it has gone backward through
  /// the batch, for follow().
  bool first_layer_above = false;
  /// The host in its forward(), which then is in no graph of a device.
  bool host = false;
};

/// What a head is given beside the features of a batch.
struct HeadInputs {
  /// [N] int64, of texts [N, T]; or real (Targets of lib/tensors/tensors.h).
  at::Tensor labels = {};
  /// [N, C, H, W] in 0..1, augmented as the model's input was; undefined
  /// unless needed.
  at::Tensor raw_input = {};
  Pass pass = {};
};

/// The local loss of h_k, and what it was computed from.
struct HeadResult {
  at::Tensor loss;  ///< scalar, attached to the features and the parameters
  /// [N, classes], of texts [N, T, classes]; undefined for heads without
  /// classes.
  at::Tensor logits;
};

/// An auxiliary head: turns the features of a block into a local loss. That
/// loss, with weight 1, trains the head's parameters.
class Head : public torch::nn::Module {
 public:
  /// features: h_k, [N, ...] each.
  virtual HeadResult forward(const Tensors& features,
                             const HeadInputs& beside) = 0;
  virtual Needs needs() const { return {}; }
  /// Called for each batch after its forward(), with what
  /// needs().first_layer_above asked for, in the order of the layer's
  /// parameters. The tensors must not be kept. share: of the batch in its turn.
  virtual void follow(const Tensors& /*first_layer_above*/, double /*share*/) {}
  /// Tensors that begin as copies of weights of the model, by their names in it
  /// ("layers.3.weight"): set when those are loaded before training.
  virtual NamedTensors copied() const { return {}; }
};

/// Makes the head for a boundary, its weights set from site.seed. Throws
/// UserError for features that it can't take.
using MakeHead = std::function<std::shared_ptr<Head>(const BoundarySite& site)>;
/// Reads the head's options, eagerly, so that a typo fails before training.
using ConfigureHead = MakeHead (*)(Fields& options);
using HeadRow = Row<ConfigureHead>;

}  // namespace sluice
