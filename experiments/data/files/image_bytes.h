#pragma once

#include <cstdint>
#include <vector>

namespace sluice {

/// Images as bytes: one after the other, each channel by channel and row by
/// row, with a label for each.
struct Images {
  std::vector<std::uint8_t> pixels = {};
  std::vector<std::uint8_t> labels = {};
};

}  // namespace sluice
