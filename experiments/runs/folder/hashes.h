#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/metrics/records.h"

namespace sluice {

/// Block and replica.
using HashedSeat = std::pair<int, int>;
/// Hashes written by a run with `hashes = true`, in the order of the updates.
using Hashes = std::map<HashedSeat, std::vector<records::Hash>>;

/// Reads the hashes of a run. Throws UserError when it has none, since two runs
/// without hashes would compare as equal.
Hashes read_hashes(const std::string& run_folder);

/// The first place at which two runs differ.
struct HashDifference {
  std::int64_t turn = 0;
  int block = 0;
  std::string name = {};  ///< of the tensor or gradient
  int replica = 1;

  bool operator==(const HashDifference&) const = default;
};
std::string to_text(const HashDifference& difference);

/// The difference in the earliest turn and, in that, in the highest block,
/// since gradients go down.
std::optional<HashDifference> first_difference(const Hashes& left,
                                               const Hashes& right);

}  // namespace sluice
