#pragma once

#include <string>

namespace sluice {

/// The run folder that a Network writes, as `sluice run` does: run.json,
/// config.toml, metrics.jsonl, status.json, a TensorBoard file, trace.json and
/// checkpoints. `sluice report`, `watch`, `checkpoint` and `export` read it.
struct RunOfNetwork {
  std::string folder = {};  ///< empty: nothing is written
  bool overwrite = false;   ///< remove the run that is there, and start anew
  bool resume = false;      ///< go on from the last checkpoint that is there
  /// Whether the loop begins at net.turns(): then a sweep of the program goes
  /// on with runs that were interrupted, and else begins them anew.
  bool resumable = false;
};

}  // namespace sluice
