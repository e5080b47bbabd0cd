#pragma once

#include <memory>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/blocks/block.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/codecs/codec.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// All layers of a network in one place, to be evaluated: what its blocks
/// compute together, the codecs of their boundaries included. Used by one
/// thread.
class AssembledModel {
 public:
  /// layers: those of the experiment's model, which it cuts.
  AssembledModel(const Experiment& experiment, const Layers& layers);

  /// A forward as workers evaluate; without a graph, if the caller has
  /// gradients off.
  Tensors forward(const Tensors& inputs, const Pass& pass);
  /// Parameters and buffers, named as in checkpoints, of ends of boundaries too
  /// that change evaluations; what is written into them is what forward() sees.
  NamedTensors tensors() const;

 private:
  std::vector<Block> blocks_;
  Codecs codecs_;  // above each block
  /// Above each block; nullptr where an evaluation sends its features.
  std::vector<std::unique_ptr<Lower>> ends_;
};

}  // namespace sluice
