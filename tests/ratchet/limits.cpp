#include "tests/ratchet/limits.h"

namespace sluice {

std::span<const Limits> limits() {
  // As SLUICE_RATCHET=print writes them: allocations, KiB copied, layout
  // copies, messages.
  static constexpr Limits kRows[] = {
      {"quickstart", "local_loss", {194, 2729, 13, 1}, {46, 107, 1, 0}},
      {"conv", "local_loss", {47, 1, 0, 1}, {77, 2577, 8, 0}},
      {"mlp", "local_loss", {39, 129, 0, 1}, {27, 65, 0, 0}},
      {"gpt", "local_loss", {170, 35, 0, 1}, {159, 3, 0, 0}},
  };
  return kRows;
}

}  // namespace sluice
