#pragma once

#include <memory>

#include "lib/blocks/loss.h"
#include "lib/boundaries/boundary.h"

namespace sluice {

/// The lower end above the last block: the run's loss, with weight 1.
std::unique_ptr<Lower> make_top_loss(Loss loss);

}  // namespace sluice
