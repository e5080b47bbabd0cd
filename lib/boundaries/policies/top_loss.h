#pragma once

#include <memory>

#include "lib/blocks/loss.h"
#include "lib/boundaries/policy.h"

namespace sluice {

/// What stands above the last block: the run's loss, weight 1.
std::unique_ptr<Policy> make_top_loss(Loss loss);

}  // namespace sluice
