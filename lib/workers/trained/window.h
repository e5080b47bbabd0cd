#pragma once

#include <cstdint>
#include <string>

#include <c10/core/Device.h>

#include "lib/checkpoints/saved_state.h"
#include "lib/schedules/plan/micro_batches.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/transform.h"

namespace sluice {

/// The batches that the next update applies, and the sum of their gradients so
/// far.
struct Window {
  Tensors gradients = {};
  std::int64_t batches = 0;     ///< that they are the sum of
  std::int64_t turns = 0;       ///< that they are all batches of
  std::int64_t first_turn = 0;  ///< whose batches they are
  Staleness in_batches = {};
  Staleness in_updates = {};
  /// The weights of the last batch's forward, where a correction wants them.
  Tensors forward_weights = {};
  /// The part of the whole model's norm that came down with the last gradients,
  /// as squared_norm() gives it; undefined: nothing.
  at::Tensor squared_norm_above = {};

  /// Adds a batch, after those before it: sums depend on their order. weight:
  /// factor of its gradients.
  void add(Tensors batch_gradients, std::int64_t batch,
           const MicroBatches& micro_batches, double weight = 1);
  /// The update's info, without its turn and rate.
  UpdateInfo info() const;
  /// Empties the window. The gradients themselves are kept, for
  /// Seat::gradients().
  void clear();

  /// Saves the window under `name`, an empty one not at all. first_turn is
  /// saved as "<name>.first_batch", which it was called when a turn was one
  /// batch; `batches` includes all micro-batches.
  void save(const std::string& name, NamedTensors& all) const;
  void restore(const std::string& name, const SavedState& saved,
               const c10::Device& device);
};

}  // namespace sluice
