#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/schedules/plan/epochs.h"
#include "lib/schedules/plan/gathering.h"
#include "lib/schedules/plan/peers.h"

namespace sluice {

struct Action;
struct BlockPlan;
struct RunPlan;

/// What the replicas of a block sum over all of them.
enum class ExchangedTensors : std::uint8_t {
  nothing,
  gradients,   ///< of a window, before the update that applies them
  weights,     ///< after an update
  old_weights  ///< before an update, which then takes account of the sum
};

/// The way by which the exchanged tensors travel.
enum class ExchangeWay : std::uint8_t {
  sum,        ///< all is added up and given to all, as on a ring
  to_owners,  ///< each sends every other one another part: half of that
  to_all      ///< each sends all it has to every other one
};

/// When a block's replicas meet: each publishes, then takes what all have
/// published.
struct ReplicaExchange {
  ExchangedTensors what = ExchangedTensors::nothing;
  /// Updates from one exchange of weights to the next, and how many updates
  /// earlier than the multiples of that number this block has its own.
  std::int64_t every = 1;
  std::int64_t offset = 0;
  /// Updates of turns before this one have an exchange each.
  std::int64_t each_before = 0;
  /// Whether evaluations and checkpoints, too, need a sum over the replicas:
  /// what they have isn't the same then.
  bool agrees = false;
  int members = 1;  ///< replicas of the block
  /// Of gradients: each replica is given its part of the sums, updates its part
  /// of the weights, and a second exchange gathers them (kGather).
  bool shards = false;
  /// Between whom; of anything but `all` a replica is given what its peers have
  /// published, and no sums. An agreement is always a sum over all.
  PeerGraph graph = {};
  /// The replicas have one copy of the weights in memory, which they read and
  /// write when they like: no exchange and no wait.
  bool in_memory = false;
  /// Rhythm of updates with which all replicas adopt the weights of the best
  /// one, in an exchange of its own (kAdopt).
  Rhythm adopts = {};
  /// Whether the replicas come to weights of their own.
  bool leaves_them_apart() const {
    return what == ExchangedTensors::weights ||
           what == ExchangedTensors::old_weights || !graph.is_all() ||
           in_memory;
  }
  /// Whether a centre serves the replicas of blocks that run free: each comes
  /// when it is ready, and the centre of the block serves one after the other,
  /// in the order of their arrival, instead of an exchange between peers.
  /// Replicas wait for slower ones only for an agreement.
  bool served = false;
  /// Whether each replica clips its own gradients before it publishes them,
  /// where the norm of the whole model is clipped (RunPlan::model_norm); else
  /// the norm is that of what is applied.
  bool clips_own = false;
  /// Rule of such a centre where replicas wait for others: a second settle
  /// (kMerged) takes what was made of all that came.
  Quorum quorum = {};
  ExchangeWay way = ExchangeWay::sum;
  /// Exchanges of gradients, one after the other, that an update waits for; the
  /// second is kSecondRound. Not with shards.
  int rounds = 1;
  /// Halves of a sum over a ring: to sum, and to gather. Shards have the first
  /// of gradients and the second of weights.
  int halves() const { return shards || way != ExchangeWay::sum ? 1 : 2; }
  /// Into how many parts the bytes are cut, of which one goes from replica to
  /// replica in each step of such a half.
  int parts() const { return way == ExchangeWay::to_all ? 1 : members; }

  bool operator==(const ReplicaExchange&) const = default;
};

/// Whether an exchange, or the action that settles it, is one of peers.
bool is_among_peers(const BlockPlan& plan, const Action& exchange);
/// Whether it is one with the centre of the block (ReplicaExchange::served).
bool is_served(const BlockPlan& plan, const Action& exchange);
/// Whether it takes what a centre has merged (ReplicaExchange::quorum).
bool is_merge(const BlockPlan& plan, const Action& settle);
/// Peers of the plan's replica in such an exchange. Exchanges are numbered by
/// their turns, so that a continued run goes on with the same peers.
Peers peers_of(const BlockPlan& plan, const Action& exchange);
/// Whether the norm of the whole model is that of what the replicas have given
/// each other: its parts go down when a block has that, not with the gradients
/// of a batch.
bool is_norm_of_exchanged(const RunPlan& plan, int seat);
/// Whether that settle gives the block what the next update applies.
bool gives_gradients(const BlockPlan& plan, const Action& settle);
/// Whether the replicas sum the gradients of each lesson of what the ends of
/// the block's boundaries train; else each steps by its own, and those who
/// exchange weights exchange these too.
bool sums_lessons(const BlockPlan& plan);
/// Messages that all replicas of the block send in such an exchange.
std::int64_t messages_of(const BlockPlan& plan, const Action& exchange);

/// The plan of so many replicas, of which each has all blocks, made from that
/// of one. `exchange` is for all blocks, members and offset left out; `stagger`
/// spreads the exchanges of the blocks' weights over the updates between two.
/// Throws UserError where the plan admits no replicas.
RunPlan with_replicas(const RunPlan& one, int replicas,
                      const ReplicaExchange& exchange, bool stagger = false);

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
