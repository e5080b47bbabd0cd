#pragma once

#include <cstdint>
#include <vector>

#include "experiments/data/split.h"

namespace sluice {

/// The samples of `split` with these indices, in that order. Each keeps its own
/// random changes and position.
Split some_of(const Split& split, std::vector<std::int64_t> indices);

}  // namespace sluice
