#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/schedules/plan/traits.h"

namespace sluice {

/// A delay of gradients that no block causes: what staleness by itself does to
/// training can be measured with it, of as many turns as one likes.
struct AddedDelay {
  /// Turns by which the gradients of all blocks are late ...
  std::int64_t turns = 0;
  /// ... or those of block k, index k-1; empty: `turns` holds.
  std::vector<std::int64_t> by_block = {};
  WeightsAtBackward weights = {};

  std::int64_t of(int block) const {
    return by_block.empty() ? turns
                            : by_block.at(static_cast<std::size_t>(block) - 1);
  }
  bool is_there() const { return turns > 0 || !by_block.empty(); }
};

}  // namespace sluice
