#pragma once

#include <string>

#include "experiments/planner/comparison.h"

namespace sluice::planner {

/// A row for each method and number of blocks, what stands against some, and
/// which is the fastest: for a terminal.
std::string text_of(const Comparison& comparison);

}  // namespace sluice::planner
