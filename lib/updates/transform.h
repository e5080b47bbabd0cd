#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/base/table.h"
#include "lib/tensors/parts.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/optimizer.h"

namespace sluice {

/// Staleness of the batches that an update applies.
struct Staleness {
  std::int64_t sum = 0;
  std::int64_t most = 0;

  void add(std::int64_t value) {
    sum += value;
    most = std::max(most, value);
  }
  double mean_over(std::int64_t batches) const {
    return static_cast<double>(sum) / static_cast<double>(batches);
  }
};

/// What an update is of, and the rate that it will be applied with.
struct UpdateInfo {
  std::int64_t turn = 0;
  std::int64_t batches = 1;  ///< of the window, which the gradients are sums of
  std::int64_t turns = 1;    ///< of the window
  /// Replicas whose gradients have been added.
  std::int64_t replicas = 1;
  Staleness in_batches = {};
  Staleness in_updates = {};
  /// Norm of the whole model's gradients, where blocks have exchanged it: a
  /// double on the device of the gradients, one for each step where an update
  /// has several. Undefined where not.
  at::Tensor model_norm = {};
  double rate = 0;
  /// Mixture that the step of a VelocityOptimizer goes along.
  StepMix mix = {};
  /// The weights that the window's only batch was forwarded with: those of the
  /// first parameters, the block's own. Empty unless the options want them
  /// (OptimizerOptions::wants_forward_weights), or where none were kept.
  Tensors forward_weights = {};
};

/// What the links of a chain are made from.
struct UpdateOptions {
  OptimizerOptions optimizer = {};
  bool mean = false;     ///< over the window's turns, instead of the sum
  bool clipped = false;  ///< before they come, by who applies the update
  bool graphs = false;   ///< on a GPU an update may be the replay of a graph
  /// The optimizer steps only this share of each parameter, and keeps state for
  /// no more (ShardedOptimizer).
  Share share = {};
};

/// A link of an update: changes gradients, the rate, or what a step goes along.
/// Gradients are those of
/// the optimizer's parameters, in their order; undefined ones are left so, and
/// none is written in place, for others may hold it.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual void apply(Tensors& gradients, UpdateInfo& info) = 0;
  /// Whether it may be given parts of the gradients, too.
  virtual bool takes_parts() const { return false; }
  /// Tensors that a checkpoint keeps, as of an optimizer.
  virtual NamedTensors state() const { return {}; }
};

/// Makes the link for such parameters; nullptr where the options want none.
using MakeTransform = std::unique_ptr<Transform> (*)(
    const UpdateOptions& options, const NamedTensors& parameters);
using TransformRow = Row<MakeTransform>;

/// Rows of transforms in the order in which they are applied, the optimizer
/// after them. A new link is one source file and one row.
std::span<const TransformRow> transforms();

}  // namespace sluice
