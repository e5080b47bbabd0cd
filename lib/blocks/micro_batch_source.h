#pragma once

#include <memory>

#include "lib/blocks/source.h"
#include "lib/schedules/plan/micro_batches.h"

namespace sluice {

/// Yields batch n of turns that are cut into several: its samples of the turn
/// that the inner source calls a batch. Batches of a turn are asked for one
/// after the other. With a count of 1 it gives `turns` back.
std::unique_ptr<Source> in_micro_batches(std::unique_ptr<Source> turns,
                                         const MicroBatches& cut);

}  // namespace sluice
