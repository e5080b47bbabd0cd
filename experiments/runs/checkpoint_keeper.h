#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/config/keep_options.h"
#include "lib/metrics/records.h"

namespace sluice {

/// Makes checkpoints final and removes those that are not to be kept. With
/// KeepOptions::best, `best` in the folder is a link to that one.
class CheckpointKeeper {
 public:
  /// folder: of the run's checkpoints.
  CheckpointKeeper(std::string folder, KeepOptions options);

  /// An evaluation after `turn` turns: before the turn's checkpoint is saved.
  void evaluated(const records::Evaluation& evaluation);
  /// All blocks have written their part of the turn's checkpoint.
  void saved(std::int64_t turn);
  /// The same of a checkpoint that was made final elsewhere, and lies there.
  void kept(std::int64_t turn);
  /// The best evaluation so far; nothing when the config doesn't ask for it.
  const std::optional<records::Evaluation>& best() const { return best_; }

 private:
  bool is_kept(std::int64_t turn, std::int64_t newest) const;
  void link_best() const;

  std::string folder_;
  KeepOptions options_;
  std::optional<double> best_value_;
  std::optional<std::int64_t> best_turn_;
  std::optional<records::Evaluation> best_;
};

}  // namespace sluice
