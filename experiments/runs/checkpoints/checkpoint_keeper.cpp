#include "experiments/runs/checkpoints/checkpoint_keeper.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/set_aside.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

}  // namespace

CheckpointKeeper::CheckpointKeeper(std::string folder, KeepOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

void CheckpointKeeper::evaluated(const records::Evaluation& evaluation) {
  if (!options_.best) return;
  const double value = options_.best->in(evaluation);
  if (std::isnan(value)) return;
  if (best_.value && !options_.best->is_better(value, *best_.value)) return;
  best_before_ = std::exchange(best_, {value, evaluation.turn, evaluation});
}

bool CheckpointKeeper::is_kept(std::int64_t turn, std::int64_t newest) const {
  if (turn == newest || turn == best_.turn) return true;
  if (turn == 0) return options_.initial;
  const Rhythm& every = options_.every;
  if (!every.is_at(turn)) return false;
  return options_.last == 0 ||
         every.times_by(newest) - every.times_by(turn) < options_.last;
}

/// The link changes at once from one checkpoint to the next.
void CheckpointKeeper::link_best() const {
  const std::string beside = folder_ + "/best.partial";
  const fs::path target =
      fs::path(checkpoint_folder(folder_, *best_.turn)).filename();
  std::error_code error;
  fs::remove(beside, error);
  fs::create_directory_symlink(target, beside, error);
  if (!error) fs::rename(beside, folder_ + "/best", error);
  if (error)
    throw UserError("{}/best: can't be made: {}", folder_, error.message());
}

KeptCheckpoint CheckpointKeeper::saved(std::int64_t turn) {
  finish_checkpoint(folder_, turn);
  return kept(turn);
}

KeptCheckpoint CheckpointKeeper::kept(std::int64_t turn) {
  KeptCheckpoint kept;
  work_on_checkpoints(folder_, [&] { kept = keep(turn); });
  return kept;
}

KeptCheckpoint CheckpointKeeper::keep(std::int64_t turn) {
  const std::string folder = checkpoint_folder(folder_, turn);
  if (std::string what = noted_not_finite(folder); !what.empty()) {
    std::string aside = set_aside(folder);
    if (best_.turn == turn) best_ = best_before_;
    return {std::move(aside), std::move(what)};
  }
  if (best_.turn == turn) link_best();
  for (const auto& [other, path] : find_checkpoints(folder_))
    if (other < turn && !is_kept(other, turn)) remove_checkpoint(path);
  return {folder};
}

}  // namespace sluice
