#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// Seconds that the actions of a block take on the virtual clock.
struct BlockCosts {
  /// Seconds of each op; of a backward without `head` and `replay`.
  /// op_seconds() says what an op without an entry takes.
  OpValues<double> seconds = {};
  /// Seconds that a backward takes longer for the auxiliary head's forward and
  /// backward.
  double head = 0;
  /// Seconds that a backward takes longer with a method that forwards the batch
  /// again; nothing: as much as a forward.
  std::optional<double> replay = {};
  double slowness = 1;  ///< by which all of these are multiplied
};

/// Bytes of each message that crosses a boundary.
struct MessageBytes {
  double activation = 0;
  double gradient = 0;
  double evaluation = 0;
  double norm = 0;
};

/// Costs of a link between two neighbours.
struct LinkCosts {
  double latency = 0;    ///< s per message
  double bandwidth = 0;  ///< bytes/s of each direction; 0: unlimited
};

/// How a block's actions differed from turn to turn: for each op factors, of
/// which that of turn t is element t modulo their number. Empty: 1.
using Variation = OpValues<std::vector<double>>;

/// Blocks that share a device: no more than `cores` of them compute at a time,
/// and the block that has waited longest comes first.
struct SharedCores {
  std::vector<int> blocks = {};
  std::int64_t cores = 1;
};

/// A replica of a block that is slower than its others.
struct SlowReplica {
  int block = 1;
  int replica = 1;
  double slowness = 1;  ///< by which the times of the block are multiplied
};

/// How the times of actions of one mean are distributed.
enum class Service : std::uint8_t {
  fixed,       ///< they are all the mean
  exponential  ///< without memory, as in models of queues
};

/// What the virtual clock knows. Zero costs give the sequential reference.
/// Lists by block may also have an entry for each seat; else all replicas are
/// alike (by_seat()).
struct Costs {
  std::vector<BlockCosts> blocks = {};  ///< index k-1; missing: cost nothing
  double latency = 0;                   ///< s per message
  /// Bytes/s of each direction of a boundary, which carries one message after
  /// the other; 0: unlimited.
  double bandwidth = 0;
  std::vector<MessageBytes> bytes = {};  ///< index k-1 for boundary k
  /// What an action or message takes is multiplied by a factor uniform in
  /// 1 +- jitter, 0 <= jitter < 1, keyed by the seed and what it is.
  double jitter = 0;
  /// Times of actions, not of messages; keyed as the jitter is.
  Service service = Service::fixed;
  bool has_chance() const { return jitter > 0 || service != Service::fixed; }
  std::uint64_t seed = 0;
  /// Seconds of a turn when one block does it all by back-propagation; 0:
  /// the sum of the blocks' forwards, backwards and updates at slowness 1.
  double in_one_block = 0;
  /// Index k-1 for boundary k; missing: `latency` and `bandwidth`.
  std::vector<LinkCosts> links = {};
  /// Bytes that the replicas of block k exchange, index k-1, and what is
  /// between any two of them.
  std::vector<double> exchange_bytes = {};
  LinkCosts exchange_link = {};
  std::vector<SharedCores> shared = {};  ///< blocks in none have their own
  /// Seconds while all cores that the block shares compute, which compete for
  /// memory: settled() makes `blocks` of them. Empty: the same.
  std::vector<BlockCosts> beside = {};
  std::vector<Variation> variation = {};        ///< index k-1; missing: none
  std::vector<SlowReplica> slow_replicas = {};  ///< until by_seat() has them
};

/// Seconds of an op of a block, without its slowness, head and replay. A
/// backward of which only the halves are known takes what both do; a half of
/// which nothing is known half of a backward; an evaluation what a forward
/// does.
double op_seconds(const BlockCosts& costs, Op op);

/// Whether any action or message takes time.
bool takes_time(const Costs& costs);

/// Whether the block's backwards forward their batch again.
bool replays(const BlockPlan& plan);

/// Costs whose lists have an entry for each seat of the plan.
Costs by_seat(Costs costs, const RunPlan& plan);

double seconds_of(const Costs& costs, const BlockPlan& plan,
                  const Action& action);

/// Seconds of an exchange, from when all peers have published that the replica
/// takes from: of a sum that of a ring, 2 (N - 1) (latency + bytes / (N
/// bandwidth)) for N replicas (Patarasu and Yuan 2009,
/// doi:10.1016/j.jpdc.2008.09.002, section 3), half of it, or (N - 1) (latency
/// + bytes / bandwidth), as ExchangeWay says; among peers, and where all adopt
/// the weights of one, latency + bytes / bandwidth for each.
double exchange_seconds(const Costs& costs, const BlockPlan& plan,
                        const Action& settle);

/// Seconds that a push and its answer are on their way between a replica and
/// the centre of its block: latency + bytes / bandwidth each, of a settle that
/// is served. None where a host visits its own centre.
double visit_seconds(const Costs& costs, const BlockPlan& plan,
                     const Action& settle);

/// The size of a message, as Costs::bytes say.
double bytes_of(const Costs& costs, const Transfer& transfer);

/// Seconds that a message keeps its direction of the boundary busy, and that it
/// is on its way after that.
struct Transit {
  double occupies = 0;
  double latency = 0;
};
Transit transit_of(const Costs& costs, const Transfer& transfer);

/// Seconds of the work in one block: Costs::in_one_block, or the sum that
/// stands for it.
double seconds_in_one_block(const Costs& costs, const RunPlan& plan);

}  // namespace sluice
