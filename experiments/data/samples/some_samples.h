#pragma once

#include <cstdint>
#include <vector>

#include "experiments/data/samples/split.h"

namespace sluice {

/// The samples of `split` with these indices, in that order. Each keeps its own
/// random changes and position.
Split some_of(const Split& split, std::vector<std::int64_t> indices);

/// `count` indices of a split of `size` samples, ascending: one of each of as
/// many equal ranges, by chance, or where classes follow each other in turn
/// they could all be of one. The same ones in every run. 0 <= count <= size.
std::vector<std::int64_t> spread_over(std::int64_t size, std::int64_t count);

}  // namespace sluice
