#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/metrics/records.h"

namespace sluice {

/// What a run with `hashes = true` has written: by block, in the order of its
/// updates.
using Hashes = std::map<int, std::vector<records::Hash>>;

/// Throws UserError where the run has none: two that have none would be equal.
Hashes read_hashes(const std::string& run_folder);

/// Where two runs part.
struct HashDifference {
  std::int64_t turn = 0;
  int block = 0;
  std::string name = {};  ///< of the tensor or gradient

  bool operator==(const HashDifference&) const = default;
};
std::string to_text(const HashDifference& difference);

/// The difference of the earliest turn, there of the highest block: gradients
/// go down.
std::optional<HashDifference> first_difference(const Hashes& left,
                                               const Hashes& right);

}  // namespace sluice
