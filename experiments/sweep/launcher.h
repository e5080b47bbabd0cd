#pragma once

#include <cstddef>
#include <vector>

namespace sluice::sweep {

/// Does runs of a sweep, each in a process of its own: on this machine
/// (LocalLauncher), or on a cluster (SlurmLauncher).
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// Does the runs of these cells to their ends, or to a rung of so many epochs
  /// (0: their ends), and prints a line for each. Returns when nothing is left
  /// to do, or when the sweep is to stop.
  virtual void run(const std::vector<std::size_t>& cells, double rung) = 0;
};

}  // namespace sluice::sweep
