#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/table.h"
#include "lib/blocks/block.h"
#include "lib/blocks/layer.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/update_chain.h"

namespace sluice {

/// A batch between its forward and its backward. Which of the lower members are
/// used is the weight view's affair.
struct Flight {
  Tensors inputs =
      {};  ///< leaves; they ask for gradients if the block below wants
  at::Tensor labels = {};
  Pass pass = {};
  /// Version of the weights that the forward used: the block's, unless the view
  /// takes others and sets it.
  std::int64_t version = 0;
  /// The one with which the lowest block of the segment forwarded the batch.
  std::int64_t entry_version = 0;
  Attachments attachments = {};  ///< that the lower end above needs
  /// Updates that the block will make between its forward and its backward, as
  /// far as the batches in flight tell; their learning rate.
  std::int64_t updates_ahead = 0;
  double rate = 0;

  /// h_k as it came back with the gradient, where the view rebuilds inputs; set
  /// before graph_of().
  Tensors returned = {};
  Tensors outputs = {};               ///< with the graph
  std::shared_ptr<Block> block = {};  ///< whose weights that graph refers to
  Tensors weights = {};               ///< copies of those of the forward
  std::int64_t graph_bytes = 0;  ///< that the graph keeps alive, outputs too
};

/// Graph and tensors that a backward works on.
struct Graph {
  Tensors outputs;
  /// Leaves, in the order of Block::parameters(): where gradients are taken.
  Tensors parameters;
};

/// View on the weights that the forward and the backward of a batch see, and so
/// what a block keeps of the batches between the two. Used by the block's
/// thread.
class WeightView {
 public:
  virtual ~WeightView() = default;
  /// A training forward. Returns h_k, and keeps what the backward will need.
  virtual Tensors forward(Flight& flight) = 0;
  /// The graph of that batch; called once. `version` is what the block's
  /// weights have now. Throws InternalError where the graph would run against
  /// other weights than those of its forward, unless that is what the view is.
  virtual Graph graph_of(Flight& flight, std::int64_t version) = 0;
  /// The block's weights, which are of that version, are about to change.
  virtual void before_update(std::int64_t /*version*/) {}
  /// Storage that the update writes the block's next weights into, in the order
  /// of Block::parameters(), so that what batches in flight refer to stays as
  /// it is. Empty: the update overwrites the weights. After before_update().
  virtual Tensors next_weights() { return {}; }
  /// Called after the block's weights changed.
  virtual void after_update() {}
  /// The weights of the batch's forward, for a checkpoint; empty when its
  /// backward does without.
  virtual Tensors weights_of(const Flight&) const { return {}; }
  /// Bytes of the weights that are kept for that batch.
  virtual std::int64_t stashed_bytes(const Flight& flight) const;
  /// Brings back what forward() kept of a batch that a checkpoint held: its
  /// inputs, labels, pass and version are set, `weights` are those of its
  /// forward. Moves no BatchNorm statistics.
  virtual void restore(Flight& flight, const Tensors& weights) = 0;
  /// Bytes of weights that are kept for no single batch.
  virtual std::int64_t kept_bytes() const { return 0; }
  /// Saves the view's weights as "<name>.*", for a checkpoint; the inverse
  /// comes before any batch is restored.
  virtual void save(const std::string& /*name*/, NamedTensors& /*all*/) const {}
  virtual void restore(const std::string& /*name*/,
                       const SavedState& /*saved*/) {}
};

/// What a view is made from; all that is referred to must outlive it.
struct WeightViewSite {
  Block& block;
  /// The block's update chain; the block's own parameters come first in it.
  const UpdateChain& update;
  StatisticsPass statistics = StatisticsPass::forward;
  /// Whether the weights of a batch's forward will be read, by a checkpoint or
  /// by a correction of stale gradients: `mixed` then keeps copies of weights
  /// that it would not need otherwise.
  bool saved = false;
  /// Momentum along whose velocity forwards look ahead, where no updates come
  /// between the forward and the backward of a batch; 0: they don't.
  double look_ahead = 0;
  /// Options of the view, from the plan.
  WeightsAtBackward weights = {};
  /// Whether the block below wants gradients, for inputs that are rebuilt.
  bool gradient_to_below = false;
};

/// How a view is made, and what it is to schedules.
struct WeightViewKind {
  std::unique_ptr<WeightView> (*make)(const WeightViewSite& site) = nullptr;
  bool forwards_again = false;  ///< WeightsAtBackward's
  bool of_today = false;        ///< WeightsAtBackward's
  bool rebuilds = false;        ///< WeightsAtBackward's
  bool by_window = false;       ///< WeightsAtBackward's
  bool of_entry = false;        ///< WeightsAtBackward's
  /// Throws UserError where the block's optimizer doesn't go with it; nullptr:
  /// any does.
  void (*check)(const OptimizerOptions& optimizer) = nullptr;
};
using WeightViewRow = Row<WeightViewKind>;

/// All views for blocks where updates come between a batch's forward and
/// backward. A new one is one source file and one row, at the end: checkpoints
/// name a view by its place.
std::span<const WeightViewRow> weight_views();

/// The row's traits. Throws UserError when there is none of that name.
WeightsAtBackward weights_at_backward(std::string_view view);
/// Runs the row's check; throws UserError where the optimizer doesn't go with
/// the view.
void check_weight_view(const WeightsAtBackward& weights,
                       const OptimizerOptions& optimizer);
/// Whether the view asks the block's optimizer for its velocity.
bool predicts(const WeightsAtBackward& weights);
/// Index of the view's row.
std::int64_t number_of(const WeightsAtBackward& weights);

/// Makes the view of the row that the plan names. Where no updates come between
/// the forward and the backward of a batch it is that of the latest weights,
/// whatever the row: the graph is kept, or built anew where the plan wants it.
std::unique_ptr<WeightView> make_weight_view(const BlockPlan& plan,
                                             WeightViewSite site);

}  // namespace sluice
