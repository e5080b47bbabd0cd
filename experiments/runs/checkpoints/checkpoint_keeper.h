#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/config/keep_options.h"
#include "lib/metrics/records.h"

namespace sluice {

/// A checkpoint that was saved and kept, or set aside.
struct KeptCheckpoint {
  std::string folder = {};
  /// The tensor that isn't finite, for which the checkpoint was set aside
  /// (set_aside.h); empty: it is sound.
  std::string not_finite = {};
};

/// Makes checkpoints final and removes those that are not to be kept. With
/// KeepOptions::best, `best` in the folder is a link to that one. A checkpoint
/// that isn't finite is set aside: it is never the best, and none is removed
/// for it.
class CheckpointKeeper {
 public:
  /// folder: of the run's checkpoints.
  CheckpointKeeper(std::string folder, KeepOptions options);

  /// An evaluation after `turn` turns: before the turn's checkpoint is saved.
  void evaluated(const records::Evaluation& evaluation);
  /// Called when all blocks have written their part of the turn's checkpoint.
  KeptCheckpoint saved(std::int64_t turn);
  /// Keeps a checkpoint that was made final elsewhere, and lies there.
  KeptCheckpoint kept(std::int64_t turn);
  /// The best evaluation so far; nothing when the config doesn't ask for it.
  const std::optional<records::Evaluation>& best() const {
    return best_.evaluation;
  }

 private:
  struct BestCheckpoint {
    std::optional<double> value = {};
    std::optional<std::int64_t> turn = {};
    std::optional<records::Evaluation> evaluation = {};
  };

  KeptCheckpoint keep(std::int64_t turn);
  bool is_kept(std::int64_t turn, std::int64_t newest) const;
  void link_best() const;

  std::string folder_;
  KeepOptions options_;
  BestCheckpoint best_;
  BestCheckpoint
      best_before_;  ///< what was the best before the one of best_.turn
};

}  // namespace sluice
