#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/metrics/early_stop.h"

namespace sluice {

/// Which checkpoints of a run stay. The last one always does.
struct KeepOptions {
  std::int64_t every = 0;            ///< those of its multiples; turns; 0: none
  std::int64_t last = 0;             ///< of those, so many, the newest; 0: all
  bool initial = false;              ///< that of turn 0
  std::optional<Measure> best = {};  ///< that of the best evaluation
};

/// Makes checkpoints final and removes those that nobody asked to keep. With
/// KeepOptions::best, `best` in the folder is a link to that one.
class CheckpointKeeper {
 public:
  /// folder: of the run's checkpoints.
  CheckpointKeeper(std::string folder, KeepOptions options);

  /// An evaluation after `turn` turns: before the turn's checkpoint is saved.
  void evaluated(const Record& evaluation);
  /// All blocks have written their part of the turn's checkpoint.
  void saved(std::int64_t turn);
  /// The best evaluation so far; nothing when nobody asked for it.
  const std::optional<Record>& best() const { return best_; }

 private:
  bool is_kept(std::int64_t turn, std::int64_t newest) const;
  void link_best() const;

  std::string folder_;
  KeepOptions options_;
  std::optional<double> best_value_;
  std::optional<std::int64_t> best_turn_;
  std::optional<Record> best_;
};

}  // namespace sluice
