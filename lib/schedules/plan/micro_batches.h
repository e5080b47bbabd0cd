#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/schedules/plan/deals.h"

namespace sluice {

/// The cut of each turn into batches: batch n = turn * count + i. A short last
/// turn of an epoch has batches of the same size, as many as it fills, and a
/// rest; the numbers of those that it lacks are left out. Where a block has
/// replicas, each has the deals of its own.
struct MicroBatches {
  std::int64_t count = 1;    ///< M, of a whole turn
  std::int64_t samples = 0;  ///< of a whole turn, a multiple of M; for M > 1
  std::int64_t turns_per_epoch = 0;  ///< deals; 0: all turns are whole
  std::int64_t last_samples = 0;     ///< of an epoch's last deal
  Deals deals = {};
  std::int64_t replica = 1;
  /// Above 1 where blocks have different numbers of replicas, and `count` is 1:
  /// then batches have the same numbers in all replicas of all blocks, a turn
  /// deals out so many of them, and a block that has `members` replicas gives
  /// batch n to that of replica_with().
  std::int64_t dealt = 1;
  std::int64_t members = 1;
  /// Whether a dealer gives each batch to the replica that asks for one first
  /// (replicas/dealer.h). Then batches have the same numbers in all replicas,
  /// and a turn is deals.replicas of them, whoever trains on them.
  bool by_arrival = false;

  /// The one rule by which batches find replicas.
  int replica_with(std::int64_t batch) const {
    return static_cast<int>(batch % members) + 1;
  }
  std::int64_t turn_of(std::int64_t batch) const {
    return batch / (count * numbered());
  }
  std::int64_t first_of(std::int64_t turn) const {
    return turn * count * numbered() + (dealt > 1 ? replica - 1 : 0);
  }
  /// Numbers of batches, or of turns of several, that a turn takes.
  std::int64_t numbered() const { return by_arrival ? deals.replicas : dealt; }
  /// The replica's batch of that index, from 0, in the turn.
  std::int64_t batch_of(std::int64_t turn, std::int64_t index) const {
    return first_of(turn) + index * members;
  }
  /// Batches that the replica has in a whole turn.
  std::int64_t in_turn() const { return count * dealt / members; }
  /// Number of the source's deal that the turn has.
  std::int64_t deal_of(std::int64_t turn) const {
    return deals.before(turn) + replica - 1;
  }
  /// The batch's number among those of all replicas: what its samples and
  /// random numbers are keyed by.
  std::int64_t source_batch(std::int64_t batch) const {
    if (numbered() > 1)
      return deals.before(turn_of(batch)) + batch % numbered();
    return deal_of(turn_of(batch)) * count + batch % count;
  }
  /// Number of samples of a turn; meaningful for M > 1.
  std::int64_t samples_in(std::int64_t turn) const {
    const bool is_last =
        turns_per_epoch > 0 && (deal_of(turn) + 1) % turns_per_epoch == 0;
    return is_last ? last_samples : samples;
  }
  /// Number of batches of a turn.
  std::int64_t batches_in(std::int64_t turn) const {
    if (count == 1) return in_turn();
    const std::int64_t size = samples / count;
    return (samples_in(turn) + size - 1) / size;
  }
  /// Where the batch's samples begin in its turn, and how many there are.
  std::int64_t begin_of(std::int64_t batch) const {
    return (batch - first_of(turn_of(batch))) * (samples / count);
  }
  std::int64_t size_of(std::int64_t batch) const {
    return std::min(samples / count,
                    samples_in(turn_of(batch)) - begin_of(batch));
  }
  /// The batch's share of its turn's samples: what its loss counts.
  double share_of(std::int64_t batch) const {
    if (count == 1) return 1;
    return static_cast<double>(size_of(batch)) /
           static_cast<double>(samples_in(turn_of(batch)));
  }
  /// The batch's share of what the replica does in its turn.
  double part_of_turn(std::int64_t batch) const {
    return dealt > 1 ? 1 / static_cast<double>(in_turn()) : share_of(batch);
  }
  bool ends_turn(std::int64_t batch) const {
    if (by_arrival) return true;  // of its replica
    const std::int64_t turn = turn_of(batch);
    return batch == batch_of(turn, batches_in(turn) - 1);
  }

  bool operator==(const MicroBatches&) const = default;
};

}  // namespace sluice
