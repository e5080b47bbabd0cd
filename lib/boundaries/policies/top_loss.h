#pragma once

#include <memory>

#include "lib/blocks/loss.h"
#include "lib/boundaries/boundary.h"

namespace sluice {

/// What stands above the last block: the run's loss, weight 1.
std::unique_ptr<Lower> make_top_loss(Loss loss);

}  // namespace sluice
