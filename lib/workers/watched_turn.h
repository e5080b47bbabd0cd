#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "lib/blocks/block.h"
#include "lib/boundaries/observer.h"
#include "lib/schedules/plan/action.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Shows an observer what a block has before a turn, and what it applied in it.
/// Used by one thread.
class WatchedTurn {
 public:
  /// Watches that replica of the block, which outlives it. Does nothing without
  /// an observer.
  WatchedTurn(const Block& block, int replica,
              std::shared_ptr<Observer> observer);

  /// Called before each action; the first one that trains in a watched turn
  /// counts.
  void before(const Action& action);
  /// The gradients of the block's parameters, in their order.
  /// source_batch: Application's.
  void applied(const Action& action, std::int64_t source_batch,
               const Tensors& gradients);
  /// Takes sums of gradients over so many replicas.
  void exchanged(const Action& action, std::int64_t source_batch,
                 const Tensors& sums, std::int64_t replicas);
  /// Called after each action, outside its measured time.
  void tell();

 private:
  bool watches(const Action& action) const {
    return watched_ == std::pair{action.phase, action.turn};
  }

  const Block& block_;
  int replica_;
  std::shared_ptr<Observer> observer_;
  std::pair<std::int64_t, std::int64_t> watched_ = {-1, -1};  // phase, turn
  std::optional<Application> seen_;
};

}  // namespace sluice
