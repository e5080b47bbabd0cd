#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace sluice {

/// Costs of a turn of a block.
struct PerTurn {
  std::int64_t allocations = 0;
  std::int64_t copied_kib = 0;
  std::int64_t layout_copies = 0;
  std::int64_t messages = 0;  ///< sent to the neighbour
};

/// The most that a turn may cost.
struct Limits {
  std::string_view net;
  std::string_view method;
  PerTurn below;  ///< block 1
  PerTurn above;  ///< block 2
};

std::span<const Limits> limits();

}  // namespace sluice
