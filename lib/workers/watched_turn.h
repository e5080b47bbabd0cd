#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "lib/blocks/block.h"
#include "lib/boundaries/observer.h"
#include "lib/schedules/action.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Shows an observer what a block has before a turn, and what it applied in it.
/// Used by one thread.
class WatchedTurn {
 public:
  /// Without an observer it does nothing. The block outlives it.
  WatchedTurn(const Block& block, std::shared_ptr<Observer> observer);

  /// Before each action; the first that trains in a watched turn counts.
  void before(const Action& action);
  /// The gradients of the block's parameters, in their order.
  void applied(const Action& action, const Tensors& gradients);
  /// After each action, outside its measured time.
  void tell();

 private:
  const Block& block_;
  std::shared_ptr<Observer> observer_;
  std::pair<std::int64_t, std::int64_t> watched_ = {-1, -1};  // phase, turn
  std::optional<Application> seen_;
};

}  // namespace sluice
