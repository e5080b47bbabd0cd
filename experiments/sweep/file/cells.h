#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/sweep/file/sweep.h"

namespace sluice::sweep {

/// A point of a sweep. The runs of a cell differ in their seeds alone.
struct Cell {
  std::vector<CellValue> values = {};  ///< in the order of the axes
  /// The values as texts, for tables; the label, in a cell that has one of its
  /// own.
  std::vector<std::string> texts = {};
  std::string label = {};  ///< "policy=local_loss, lr=0.1"
};

/// The cells of a sweep, the last axis moving fastest. A random sweep's are
/// drawn by (sample_seed, index, key): the first n are the same whatever their
/// number; one that was drawn before is left out. Throws UserError for two
/// cells that are the same, and for an axis that holds in none.
std::vector<Cell> cells_of(const Sweep& sweep);

/// The keys that cells set, in the order of the axes.
std::vector<std::string> keys_of(const Sweep& sweep);

/// Config of a run of that cell.
ConfigNode config_of(const ConfigNode& shared, const Cell& cell,
                     std::int64_t seed);

}  // namespace sluice::sweep
