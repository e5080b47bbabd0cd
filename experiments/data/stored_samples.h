#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "experiments/data/data_set.h"

namespace sluice {

/// Samples that lie in memory: `pixels` holds them one after the other, all of
/// the same size, and `labels` one byte for each.
std::unique_ptr<const Samples> stored_samples(std::vector<std::uint8_t> pixels,
                                              std::vector<std::uint8_t> labels);

}  // namespace sluice
