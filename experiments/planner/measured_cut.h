#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/base/config.h"
#include "modules/partition.h"

namespace sluice::planner {

/// Measured seconds of a layer in a turn.
struct LayerSeconds {
  std::string name = {};
  double work = 0;  ///< forward, backward and update
  /// More, where a block ends with it: a head, what a synthesizer learns.
  double as_last = 0;
};

/// A cut, with measured seconds of a turn of each block.
struct CutSeconds {
  Partition ranges = {};
  std::vector<double> blocks = {};

  double slowest() const;
  /// The mean time of a block over that of the slowest: 1 where all take as
  /// long.
  double balance() const;
};

struct MeasuredCut {
  std::vector<LayerSeconds> layers = {};
  CutSeconds by_operations = {};  ///< as `blocks = K` cuts
  CutSeconds by_times = {};       ///< whose slowest block takes least
};

/// Measures each layer as a block of its own, with the config's boundaries, and
/// cuts the model anew into as many blocks as the config has; then measures the
/// blocks of that cut, and of the one by LayerSpec::flops, as a whole. Writes
/// nothing. Changes the number of intra-op threads of this thread. Throws
/// UserError for a config in one block, or whose boundaries or optimizers
/// differ by block, or where no boundary could lie below some layer.
MeasuredCut measure_cut(
    const ConfigNode& config, const std::string& data_root,
    const std::function<void(const std::string&)>& progress);

/// As tables for people, with the line of the config that has the cut.
std::string text_of(const MeasuredCut& cut);

}  // namespace sluice::planner
