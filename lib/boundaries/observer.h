#pragma once

#include <cstdint>

#include "lib/tensors/tensors.h"

namespace sluice {

/// What a block has applied in a turn, for instruments that compare.
struct Application {
  int block = 1;
  int replica = 1;
  std::int64_t phase = 0;
  std::int64_t turn = 0;
  std::int64_t batch = 0;
  /// The batch's number among those of all replicas.
  std::int64_t source_batch = 0;
  /// Whether the gradients are the mean over all replicas, of that batch and
  /// those that the others have in its turn; told by replica 1.
  bool exchanged = false;
  NamedTensors gradients = {};  ///< of the block's own parameters
};

/// Watches blocks learn without changing what they do. Called on the workers'
/// threads, outside their measured time; the tensors it is given are copies.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual bool watches(std::int64_t turn) const = 0;
  /// Called before a watched turn of a replica, with the block's parameters and
  /// buffers as they are then.
  virtual void before_turn(int block, int replica, std::int64_t phase,
                           std::int64_t turn, NamedTensors weights) = 0;
  /// Called in a watched turn after the block's backward, with what it applies.
  virtual void applied(Application application) = 0;
};

}  // namespace sluice
