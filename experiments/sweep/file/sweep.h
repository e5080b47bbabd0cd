#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/config_node.h"

namespace sluice::sweep {

/// Range that a random axis draws its values from.
struct Range {
  enum class Kind {
    uniform,
    log_uniform,  ///< uniform in the logarithm
    integer       ///< whole numbers, both ends included
  };
  Kind kind = Kind::uniform;
  double low = 0;
  double high = 1;
};

/// An axis holds only in cells where `key` has one of these values (or of the
/// labels of the axis with that key).
struct AxisCondition {
  std::string key = {};
  std::vector<ConfigNode> values = {};
};

/// A key of the config, and what it is in the cells of a sweep.
struct Axis {
  std::string key = {};  ///< "boundary", "optimizer.lr"
  std::vector<ConfigNode> values = {};
  std::vector<std::string> labels = {};  ///< one for each value, or none
  std::optional<Range> range = {};       ///< instead of values
  std::string with = {};  ///< moves together with the axis of that key
  std::optional<AxisCondition> when = {};
};

/// A key, and what a cell sets it to.
using CellValue = std::pair<std::string, ConfigNode>;

/// A cell that was written out.
struct ListedCell {
  std::string label = {};
  std::vector<CellValue> values = {};
};

/// Successive halving: after some epochs the worse cells stop.
struct Halving {
  std::vector<double> rungs = {};    ///< epochs after which cells are compared
  std::int64_t keep = 2;             ///< one cell in so many goes on
  std::string measure = "accuracy";  ///< of the evaluation there, or "loss"
};

/// Many runs from one config, as the user has asked for them.
struct Sweep {
  enum class Kind {
    grid,   ///< the product of the axes
    list,   ///< the cells that are written out
    random  ///< `samples` points, each axis drawn by itself
  };
  std::string name = {};
  Kind kind = Kind::grid;
  std::vector<Axis> axes = {};         ///< none in a list
  std::vector<ListedCell> cells = {};  ///< of a list
  std::int64_t samples = 0;
  std::int64_t sample_seed = 1;
  /// Seeds of each cell's runs: an axis to average over.
  std::vector<std::int64_t> seeds = {};
  std::optional<Halving> halving = {};
  std::string slurm = {};  ///< options for sbatch
  /// The config that they all share, without [sweep].
  ConfigNode config = {};
};

}  // namespace sluice::sweep
