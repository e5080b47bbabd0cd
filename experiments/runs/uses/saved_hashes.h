#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "experiments/runs/uses/replay.h"
#include "lib/tensors/tensors.h"
#include "lib/workers/seat.h"

namespace sluice {

/// The hashes of a run's checkpoints, which the seats of its replay are
/// compared with. Remembers those of one checkpoint.
class SavedHashes {
 public:
  /// replicas: of the run. Throws UserError when it has no checkpoint.
  SavedHashes(const std::string& run_folder, std::int64_t replicas);

  std::int64_t last_turn() const { return saved_.rbegin()->first; }
  /// Whether the checkpoint of that turn was kept.
  bool has(std::int64_t turn) const { return saved_.contains(turn); }
  /// Compares a seat that is at the checkpoint of that turn, which was kept.
  CheckpointComparison compared(const Seat& seat, std::int64_t turn);

 private:
  const std::map<std::string, std::string>& of(std::int64_t turn, int replica);

  std::map<std::int64_t, std::string> saved_;  // folders, by turn
  std::int64_t replicas_;
  std::int64_t loaded_turn_ = -1;
  /// Hashes of that checkpoint, by replica.
  std::map<int, std::map<std::string, std::string>> loaded_;
};

}  // namespace sluice
