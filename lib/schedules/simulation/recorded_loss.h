#pragma once

#include <cstdint>

#include "lib/schedules/plan/action.h"

namespace sluice {

/// A replica that the centre of a block lost, by the record of a run. Places
/// are in the order of that centre.
struct RecordedLoss {
  int block = 1;
  int replica = 1;
  /// Entries to its place until its own: 0 where it was there from the start.
  /// -1: it had done nothing.
  int life = -1;
  /// The place of what was served last, or of the loss, where that has one.
  std::int64_t place = 0;
  bool has_place = false;
  std::int64_t served = 0;  ///< its own last, 0: none
  /// Whether the centre drops what it served it last, which waits for a merge.
  bool is_dropped = false;
  std::int64_t rest = 0;  ///< the next one that is over: before that turn
};

/// Whether the centre lost the replica before it does that: serves, merges, or
/// ends a rest.
inline bool is_before(const RecordedLoss& loss, const Action& action) {
  if (action.kind == ExchangeKind::agreement) return loss.rest <= action.batch;
  const bool is_before_merge = action.kind == ExchangeKind::pull &&
                               loss.place == action.arrived && loss.is_dropped;
  return loss.place < action.arrived || is_before_merge;
}

}  // namespace sluice
