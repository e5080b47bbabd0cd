#pragma once

#include <optional>
#include <string>

#include "experiments/sweep/file/sweep.h"
#include "experiments/sweep/run_sweep.h"
#include "experiments/sweep/sweep_runs.h"
#include "lib/base/files/folder_lock.h"

namespace sluice::sweep {

/// The folder of a sweep, which is this process's alone while this lives.
class SweepFolder {
 public:
  explicit SweepFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  /// Called before its runs are looked at: no process may change them then.
  /// Throws UserError when another has it.
  void open_if_there();
  bool is_open() const { return lock_.has_value(); }
  /// Makes the folder, once the plan is known to be good. Throws UserError when
  /// it can't be made, or another has just made it.
  void make_if_missing();

 private:
  std::string path_;
  std::optional<FolderLock> lock_;
};

/// --dir, or runs/sweeps/NAME; absolute for Slurm, whose nodes may work in
/// other folders.
std::string folder_of(const Sweep& sweep, const SweepOptions& options);

/// Throws UserError when tasks of Slurm do runs of the sweep, or may do so.
void refuse_beside_slurm(const std::string& folder);

/// Marks runs that were killed just before they wrote their marker: all else of
/// them is there.
void mark_done(const SweepRuns& runs);

}  // namespace sluice::sweep
