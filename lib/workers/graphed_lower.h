#pragma once

#include <memory>
#include <vector>

#include "lib/blocks/block.h"
#include "lib/boundaries/boundary.h"

namespace sluice {

/// The lower ends of the block by phase, whose signal() is a replay of a graph
/// once some batches of a shape have come, with the same bits; batches of other
/// shapes run as ever, and so do ends whose signal can't be captured
/// (Lower::depends_on_batch_alone()). Phases that share an end share the other.
/// As they are where the block's device has no graphs.
std::vector<std::shared_ptr<Lower>> graphed_lowers(
    const std::vector<std::shared_ptr<Lower>>& ends, const Block& block);

}  // namespace sluice
