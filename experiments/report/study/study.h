#pragma once

#include <string>
#include <utility>
#include <vector>

#include "experiments/report/study/run_record.h"

namespace sluice::report {

/// A cell of a study: runs that differ in their seed only.
struct StudyCell {
  std::string id = {};     ///< "001", unique in its study
  std::string label = {};  ///< "local_loss, lr=0.1", unique too
  /// The policies of its boundaries: "local_loss"; "backprop" without any.
  std::string method = {};
  /// Values by axis, in the order of Study::axes, as TOML; empty where the cell
  /// has none.
  std::vector<std::string> values = {};
  std::vector<RunRecord> runs = {};  ///< by seed

  /// The config of the first run that has one, or nullptr.
  const ConfigNode* config() const;
  int count(RunRecord::State state) const;
  /// Number of blocks; 0 before any run has begun.
  std::size_t count_of_blocks() const;
  /// Number of done runs that early_stop ended.
  int stopped_early() const;
  /// Whether any of its runs shared its machine with another run.
  bool shared_machine() const;
  /// Differences between the makers of the cell's done runs: "libtorch 2.11.0
  /// and 2.13.0"; empty: nothing.
  std::string mixed_makers() const;
  /// The runs that are done; when none is, those that have begun.
  std::vector<const RunRecord*> runs_to_draw() const;
};

/// Cells and axes that a report is about.
struct Study {
  std::string title = {};
  std::vector<std::string> axes = {};  ///< keys in which the cells differ
  std::vector<StudyCell> cells = {};
  /// Runs that were left out: of a seed that their cell has already. They would
  /// make deviations look smaller than they are.
  int repeats = 0;
};

/// Reads folders, each that of a run, of a sweep, or one of those. Cells come
/// in the order of sweep.json, or else in that of the folders' names. Throws
/// UserError when a folder has no runs, or something in it is damaged.
Study read_study(const std::vector<std::string>& folders);

}  // namespace sluice::report
