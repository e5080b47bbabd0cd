#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "lib/base/messages/message.h"
#include "lib/workers/replica_sync.h"
#include "lib/workers/seat_plan.h"
#include "lib/workers/trained/window.h"

namespace sluice {

/// A block's part of the norm of all gradients of a replica's blocks, on its
/// way down from block to block. Used by the seat's thread.
class ModelNorm {
 public:
  /// All of these outlive it.
  ModelNorm(const SeatPlan& place, const ReplicaSync& replicas, Window& window,
            const c10::Device& device)
      : place_(place), replicas_(replicas), window_(window), device_(device) {}

  /// Whether messages with gradients bring it, not messages of its own.
  bool goes_with_gradients() const;
  /// Squared norm of what the next update applies and of the blocks above; one
  /// for each gradient where each is a step of its own.
  at::Tensor squared() const;
  /// Takes the part of the blocks above.
  void take(const Message& from_above);
  void put_into(Message& message) const;

 private:
  const SeatPlan& place_;
  const ReplicaSync& replicas_;
  Window& window_;
  const c10::Device& device_;
};

/// The norm in a message. A copy: the message's memory is the link's, which
/// wants it back.
at::Tensor norm_in(const Message& message, const c10::Device& device);

}  // namespace sluice
