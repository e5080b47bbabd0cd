#pragma once

#include <cstdint>
#include <memory>

#include "lib/blocks/block.h"
#include "lib/blocks/layer.h"
#include "lib/boundaries/boundary.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// A batch between its forward and its backward. Which of the lower members are
/// used is the history's affair.
struct Flight {
  Tensors inputs =
      {};  ///< leaves; they ask for gradients if the block below wants
  at::Tensor labels = {};
  Pass pass = {};
  std::int64_t version = 0;      ///< of the weights of its forward
  Attachments attachments = {};  ///< that the lower end above needs

  Tensors outputs = {};               ///< with the graph
  std::shared_ptr<Block> block = {};  ///< whose weights that graph refers to
  Tensors weights = {};               ///< copies of those of the forward
  std::int64_t graph_bytes = 0;  ///< that the graph keeps alive, outputs too
};

/// What a backward works on.
struct Graph {
  Tensors outputs;
  /// Leaves, in the order of Block::parameters(): where gradients are taken.
  Tensors parameters;
};

/// What a block keeps of the batches that it has forwarded and not yet applied,
/// and so which weights their backward sees (WeightsAtBackward). Used by the
/// block's worker.
class History {
 public:
  virtual ~History() = default;
  /// A training forward. Returns h_k, and keeps what the backward will need.
  virtual Tensors forward(Flight& flight) = 0;
  /// The graph of that batch; called once. `version` is what the block's
  /// weights have now.
  virtual Graph graph_of(Flight& flight, std::int64_t version) = 0;
  /// The weights of the batch's forward, for a checkpoint; empty when its
  /// backward does without.
  virtual Tensors weights_of(const Flight&) const { return {}; }
  /// Bytes of the weights that are kept for that batch.
  virtual std::int64_t stashed_bytes(const Flight& flight) const;
  /// Brings back what forward() kept of a batch that a checkpoint held: its
  /// inputs, labels, pass and version are set, `weights` are those of its
  /// forward. Moves no BatchNorm statistics.
  virtual void restore(Flight& flight, const Tensors& weights) = 0;
};

/// How a block treats its history.
struct HistoryOptions {
  /// Whether updates come between the forward and the backward of a batch.
  bool delayed = false;
  WeightsAtBackward weights = WeightsAtBackward::stash;
  StatisticsAt statistics = StatisticsAt::forward;
  /// Whether batches in flight will be saved: `mixed` then keeps copies of
  /// weights that it would not need otherwise.
  bool saved = false;
};

/// The block must outlive it.
std::unique_ptr<History> make_history(const HistoryOptions& options,
                                      Block& block);

}  // namespace sluice
