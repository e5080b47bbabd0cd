#include "experiments/runs/uses/saved_hashes.h"

#include "experiments/runs/folder/run_folder.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/metrics/hash.h"

namespace sluice {
namespace {

/// Stands for a replica's number where all replicas have agreed.
constexpr int kAgreed = 0;

void compare(const NamedTensors& weights,
             const std::map<std::string, std::string>& saved,
             CheckpointComparison& one) {
  std::string all;
  for (const auto& [name, tensor] : weights) {
    const std::string hash = hash_of(tensor);
    all += hash;
    const auto found = saved.find(name);
    const bool is_same = found != saved.end() && found->second == hash;
    if (one.difference.empty() && !is_same) one.difference = name;
  }
  one.hash = hash_of(one.hash + all);
}

}  // namespace

SavedHashes::SavedHashes(const std::string& run_folder, std::int64_t replicas)
    : saved_(find_checkpoints(checkpoints_of_run(run_folder))),
      replicas_(replicas) {
  if (saved_.empty())
    throw UserError("{}: has no checkpoint to compare with", run_folder);
}

/// Hashes of the checkpoint of a turn: of what all have agreed on, and of what
/// a replica of several goes on with.
const std::map<std::string, std::string>& SavedHashes::of(std::int64_t turn,
                                                          int replica) {
  if (turn != loaded_turn_) loaded_.clear();
  loaded_turn_ = turn;
  std::map<std::string, std::string>& hashes = loaded_[replica];
  if (!hashes.empty()) return hashes;
  const std::string& folder = saved_.at(turn);
  for (auto& [name, tensor] : replica == kAgreed
                                  ? load_weights(folder)
                                  : load_own_weights(folder, replica))
    hashes[name] = hash_of(tensor);
  return hashes;
}

CheckpointComparison SavedHashes::compared(const Seat& seat,
                                           std::int64_t turn) {
  CheckpointComparison one{
      .block = seat.block(), .replica = seat.replica(), .turn = turn};
  if (seat.replica() == 1)
    compare(seat.evaluated_weights(), of(turn, kAgreed), one);
  if (replicas_ > 1) compare(seat.weights(), of(turn, seat.replica()), one);
  return one;
}

}  // namespace sluice
