#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/schedules/plan/deals.h"

namespace sluice {

/// How many epochs a run has done: batches of all replicas that it has trained
/// on, over the batches of the split. Length, phases, schedules of the learning
/// rate, evaluations, checkpoints and what is said of epochs go by it.
struct Epochs {
  std::int64_t batches = 1;  ///< of the split: of an epoch
  Deals deals = {};          ///< which of them a turn trains on

  /// Epochs done before the turn.
  double at(std::int64_t turn) const {
    return static_cast<double>(deals.by(turn)) / static_cast<double>(batches);
  }
};

/// What happens again and again: after the first turn by which so many more
/// batches of the split have been trained on.
struct Rhythm {
  std::int64_t every = 0;  ///< batches of all replicas; 0: it never happens
  Deals deals = {};        ///< default: a batch a turn, so `every` counts turns

  /// Number of times that it has happened when so many turns are done.
  std::int64_t times_by(std::int64_t turns) const {
    return every > 0 && turns > 0 ? deals.by(turns) / every : 0;
  }
  /// Whether it happens after so many turns.
  bool is_at(std::int64_t turns) const {
    return times_by(turns) > times_by(turns - 1);
  }
  /// The first turn after that one at which it happens, or `end`.
  std::int64_t next_after(std::int64_t turn, std::int64_t end) const {
    if (every <= 0) return end;
    return std::min(end, deals.turn_with((times_by(turn) + 1) * every));
  }

  bool operator==(const Rhythm&) const = default;
};

}  // namespace sluice
