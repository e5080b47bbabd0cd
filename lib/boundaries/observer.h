#pragma once

#include <cstdint>

#include "lib/tensors/tensors.h"

namespace sluice {

/// What a block has applied in a turn, for instruments that compare.
struct Application {
  int block = 1;
  std::int64_t phase = 0;
  std::int64_t turn = 0;
  std::int64_t batch = 0;
  NamedTensors gradients = {};  ///< of the block's own parameters
};

/// Watches blocks learn without changing what they do. Its calls come from the
/// threads of the workers, outside their measured time; the tensors are its
/// own.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual bool watches(std::int64_t turn) const = 0;
  /// Of a watched turn: the block's parameters and buffers before it.
  virtual void before_turn(int block, std::int64_t phase, std::int64_t turn,
                           NamedTensors weights) = 0;
  /// Of a watched turn, when the block has gone backward in it.
  virtual void applied(Application application) = 0;
};

}  // namespace sluice
