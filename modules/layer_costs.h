#pragma once

#include <cstdint>
#include <vector>

#include "modules/partition.h"

namespace sluice {

/// What a layer costs the block that it is in, in any unit.
struct LayerCost {
  double work = 0;
  /// More, where it is the last of a block that isn't the last one: what a head
  /// costs, say.
  double as_last = 0;
};

/// As balanced() of a model, by these costs. 1 <= blocks <= layers.
Partition balanced(std::int64_t blocks, const std::vector<LayerCost>& layers);

}  // namespace sluice
