#pragma once

#include <cstdint>

#include "lib/schedules/plan/epochs.h"
#include "lib/schedules/plan/gathering.h"
#include "lib/schedules/plan/op.h"
#include "lib/schedules/plan/peers.h"

namespace sluice {

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
  /// Updates for which weights travel: they are taken as late as before the
  /// update that is so many later than the one after which they are published,
  /// or at the end of the grant. `offset` is that of the publication.
  std::int64_t overlap = 0;
  /// Whether evaluations and checkpoints, too, need a sum over the replicas:
  /// what they have isn't the same then.
  bool agrees = false;
  int members = 1;  ///< replicas of the block
  /// Each replica is given its part of the sums of gradients, updates its part
  /// of the weights, and another exchange gathers them.
  bool shards = false;
  /// Between whom; of anything but `all` a replica is given what its peers have
  /// published, and no sums. An agreement is always a sum over all.
  PeerGraph graph = {};
  /// The replicas have one copy of the weights in memory, which they read and
  /// write when they like: no exchange and no wait.
  bool in_memory = false;
  /// Rhythm of updates with which all replicas adopt the weights of the best
  /// one: in an exchange of its own, or at the centre.
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
  /// Instead of one centre beside replica 1 each host of the graph has one
  /// (is_host()), which it and its neighbours visit.
  bool visits_partners = false;
  /// Whether each replica clips its own gradients before it publishes them,
  /// where the norm of the whole model is clipped (RunPlan::model_norm); else
  /// the norm is that of what is applied.
  bool clips_own = false;
  /// Rule of such a centre where replicas wait for others: a pull takes what
  /// was made of all that came.
  Quorum quorum = {};
  /// Whether the others go on when a replica is lost.
  bool survives_loss() const {
    return served && !visits_partners && quorum.survives_loss(members);
  }
  ExchangeWay way = ExchangeWay::sum;
  /// Exchanges of gradients, one after the other, that an update waits for; the
  /// last of two is of kind `second`. Not with shards.
  int rounds = 1;
  /// Halves of a sum over a ring: to sum, and to gather. Shards have the first
  /// of gradients and the second of weights.
  int halves() const { return shards || way != ExchangeWay::sum ? 1 : 2; }
  /// Into how many parts the bytes are cut, of which one goes from replica to
  /// replica in each step of such a half.
  int parts() const { return way == ExchangeWay::to_all ? 1 : members; }

  /// Kind of the exchange around an update.
  ExchangeKind of_window() const {
    if (what == ExchangedTensors::nothing) return ExchangeKind::none;
    if (served) return ExchangeKind::push;
    if (!graph.is_all()) return ExchangeKind::peers;
    return what == ExchangedTensors::gradients ? ExchangeKind::gradients
                                               : ExchangeKind::weights;
  }

  bool operator==(const ReplicaExchange&) const = default;
};

}  // namespace sluice
