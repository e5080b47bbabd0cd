#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/blocks/block.h"
#include "lib/tensors/tensors.h"
#include "lib/workers/trained/moving_average.h"
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
  /// Makes an average over the updates, by that rule.
  void average_by(const AverageRule& rule);
  /// MovingAverage's begin(), follow(), state() and restore(), where there is
  /// an average; else nothing.
  void begin_average();
  void follow(std::int64_t turn);
  NamedTensors average_state() const;
  void restore_average(const NamedTensors& state, std::string_view source);
  /// Sets the weights to the average, where there is one, and the buffers to
  /// the block's own if asked.
  void show_average(bool with_buffers);
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
  std::optional<MovingAverage> average_;
  NamedTensors heads_;  // what is trained beside the block's own
};

}  // namespace sluice
