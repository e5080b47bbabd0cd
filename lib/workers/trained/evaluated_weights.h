#pragma once

#include <optional>

#include "lib/blocks/block.h"
#include "lib/tensors/tensors.h"
#include "lib/workers/trained/trained_tensors.h"

namespace sluice {

/// Weights of evaluations and checkpoints in place of those that are trained:
/// what its replicas agreed on, or their average over the updates. Used by the
/// seat's thread.
class EvaluatedWeights {
 public:
  /// Block and trained tensors outlive this object.
  EvaluatedWeights(const Block& block, const TrainedTensors& trained);

  /// Values of all that is trained, in the order of TrainedTensors::all(), or
  /// of the first of them.
  void set_weights(const Tensors& values);
  /// Values of the block's buffers, in their order.
  void set_buffers(const Tensors& values);
  /// Whether any were set.
  bool are_others() const { return twin_.has_value(); }

  /// The block to evaluate: with those that were set, or as it is.
  Block& block_for(Block& own) { return twin_ ? *twin_ : own; }
  /// `weights` with those tensors replaced that were set.
  NamedTensors in_place_of(NamedTensors weights) const;

 private:
  Block& twin();

  const Block& block_;
  const TrainedTensors& trained_;
  std::optional<Block> twin_;
  NamedTensors heads_;  // what is trained beside the block's own
};

}  // namespace sluice
