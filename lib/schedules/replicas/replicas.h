#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/schedules/plan/plan.h"
#include "lib/schedules/plan/replica_exchange.h"

namespace sluice {

/// The plan of so many replicas, of which each has all blocks, made from that
/// of one. `exchange` is for all blocks, members and offset left out; `stagger`
/// spreads the exchanges of the blocks' weights over the updates between two.
/// Throws UserError where the plan admits no replicas, or not such a dealing.
RunPlan with_replicas(const RunPlan& one, int replicas,
                      const ReplicaExchange& exchange, bool stagger = false,
                      Dealing dealing = Dealing::shares);

/// Plan with a number of replicas for each block, index k-1, of which each
/// divides the largest, R. A turn is R batches for every block, so that a
/// replica of block k has R / R_k of them, in the order of the data
/// (MicroBatches::replica_with()), and an update sums all of them.
/// `exchange` is one of gradients between all, once for each update.
RunPlan with_uneven_replicas(const RunPlan& one,
                             const std::vector<std::int64_t>& counts,
                             const ReplicaExchange& exchange);

/// The plan of replica 1 as if it were the only one.
RunPlan first_replica(const RunPlan& plan);

/// Whether the others go on when a replica, but the first, is lost.
bool survives_loss(const RunPlan& plan);

/// Whether replicas of a quorum may wait for each other in a circle: one at the
/// centre of a block, another at that of another.
bool may_wait_in_circle(const RunPlan& plan);

/// Names of seats for people.
struct SeatNames {
  int depth = 1;  ///< blocks of the network
  int replicas = 1;
  /// Number of replicas of each block, index k-1, where these differ.
  std::vector<std::int64_t> counts = {};

  int seats() const;
  int block_of(int seat) const { return place_of(seat).first; }
  int replica_of(int seat) const { return place_of(seat).second; }
  /// "block 2", or "block 2 of replica 3" where there are several.
  std::string of(int seat) const;
  /// Name of a seat: "block 2", or "block 2.3".
  std::string short_of(int seat) const;

 private:
  std::pair<int, int> place_of(int seat) const;
};

SeatNames seat_names(const RunPlan& plan);
std::string name_of_seat(const RunPlan& plan, int seat);

}  // namespace sluice
