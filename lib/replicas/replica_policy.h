#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/replicas/centre/centre_rule.h"
#include "lib/replicas/compressor.h"
#include "lib/schedules/plan/replica_exchange.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/transform.h"

namespace sluice {

/// What a replica has after an exchange of weights.
struct Mixture {
  /// Means of what all replicas have published, in an exchange of all, in the
  /// order of the parameters; of equal ones it is they (Group::finish_mean()).
  /// May be overwritten.
  Tensors mean = {};
  /// Mean of ReplicaPolicy::movement() of all replicas, in the place of `mean`,
  /// where movements are compressed. Not to be written.
  Tensors moved = {};
  /// Tensors that the replica and its peers have published, in an exchange with
  /// peers, in the order of the replicas; not to be written.
  std::vector<Tensors> published = {};
  std::size_t own = 0;  ///< index of its own
  /// Equal parts of what each of them has, of which one is this replica's; of
  /// an exchange of all, the replicas.
  std::int64_t parts = 1;
  double rate = 0;  ///< the learning rate of the replica's last update
};

/// Rule of a replica for means of weights, or for the weights of its peers.
/// Every replica of a block has one; given the same means, all of them compute
/// the same. Used by one thread.
class ReplicaPolicy {
 public:
  virtual ~ReplicaPolicy() = default;
  /// Training begins with these weights, unless state() was restored.
  virtual void begin(const Tensors& /*weights*/) {}
  /// Tensors to publish: new ones, by default of the weights alone.
  virtual Tensors offer(const Tensors& mine);
  /// How far the replica has moved, towards lower weights, from where all began
  /// or met last: what is published where it is compressed. New tensors.
  virtual Tensors movement(const Tensors& mine);
  /// The weights after an exchange, or of one before an update (old_weights)
  /// what is added to them after it: new tensors, or those of the mean. `mine`
  /// are the replica's own. What comes while updates go on
  /// (ReplicaExchange::overlap) is kept for updated(), and nothing returned.
  virtual Tensors combine(const Tensors& mine, Mixture mixture);
  /// The weights with which the replica goes on after an update, where
  /// exchanges overlap with updates: new tensors; nothing: those it has.
  virtual std::optional<Tensors> updated(const Tensors& /*mine*/) { return {}; }
  /// The tensors whose mean consensus() takes; by default the replica's
  /// weights.
  virtual Tensors agreed(const Tensors& mine) const { return mine; }
  /// What evaluations and checkpoints take for the model's weights; by default
  /// the mean of the replicas'.
  virtual Tensors consensus(const Tensors& mean) const { return mean; }
  /// Tensors that go on over a checkpoint, by name, and are restored in place:
  /// each replica's own.
  virtual NamedTensors state() const { return {}; }
};

/// Rule for gradients of several replicas, of which each is a step of its own,
/// in the order of the replicas that they are of. Used by one thread.
class StepRule {
 public:
  virtual ~StepRule() = default;
  /// The weights that the first step begins with; nothing: those that there
  /// are.
  virtual Tensors before_steps() const { return {}; }
  /// Facts of step i, from 0, that its optimizer gets.
  virtual UpdateInfo told_of_step(std::size_t /*i*/, UpdateInfo info) const {
    return info;
  }
  /// Number of steps that a gradient of this replica will be late in the next
  /// update, where the replica has made so many updates since its forward.
  virtual std::int64_t late_by(std::int64_t updates) const { return updates; }
  /// Called after step i, with the weights that it has led to.
  virtual void stepped(std::size_t /*i*/, const Tensors& /*weights*/) {}
  /// The weights with which the replica goes on; nothing: those after the last
  /// step.
  virtual Tensors after_steps() const { return {}; }
};

/// Rule by which replicas adopt the weights of the best of them
/// (ReplicaExchange::adopts); with a centre it only adds up the losses of a
/// push. Used by one thread.
class AdoptionRule {
 public:
  virtual ~AdoptionRule() = default;
  /// The loss of a batch that was applied, [1], and its share of a turn.
  virtual void lost(const at::Tensor& loss, double share) = 0;
  /// [1] float64: how bad the replica has been since the last adoption.
  virtual at::Tensor badness() const = 0;
  virtual void adopted() = 0;
};

/// Rule for weights that the replicas have in common
/// (ReplicaExchange::in_memory): it gets those that are the replica's own. Used
/// by one thread.
class MemoryRule {
 public:
  virtual ~MemoryRule() = default;
  /// The first batch of an update comes: overwrites the weights with those that
  /// it shall see.
  virtual void before_forward(const Tensors& weights) = 0;
  /// Called before and after an update changes the weights.
  virtual void before_update(const Tensors& weights) = 0;
  virtual void after_update(const Tensors& weights) = 0;
  /// Updates of all replicas that come between a gradient's forward and the
  /// next update, where this one has made so many in between. Call it in that
  /// update.
  virtual std::int64_t late_by(std::int64_t updates) const = 0;
  /// The replicas are about to agree: it makes no update before all have come
  /// here. Then they have, and a checkpoint may come.
  virtual void before_agreement() = 0;
  virtual void after_agreement() = 0;
};

/// Rules of one replica: what it doesn't need is nullptr. Several may be one
/// object.
struct ReplicaRules {
  /// nullptr: all replicas always have the same weights.
  std::shared_ptr<ReplicaPolicy> policy = nullptr;
  std::shared_ptr<StepRule> steps = nullptr;
  std::shared_ptr<AdoptionRule> adoption = nullptr;
  std::shared_ptr<MemoryRule> memory = nullptr;
};

/// Site that a centre is made for.
struct CentreSite {
  const UpdateOptions& options;  ///< of the block's updates
  int members = 1;
  int host = 1;            ///< the replica beside which it is
  std::uint64_t seed = 0;  ///< of the run
  /// ReplicaKind::adopt_every in batches of all replicas.
  std::int64_t adopt_every = 0;
};

/// Rules by which the replicas of a run work together.
struct ReplicaKind {
  ReplicaExchange exchange = {};
  /// ReplicaExchange::every of each replica, index r-1, where these differ;
  /// empty: that of `exchange`.
  std::vector<std::int64_t> every_of = {};
  /// Whether blocks exchange their weights at different updates.
  bool stagger = false;
  /// Whether the policy tells how stale each gradient is, where those of
  /// several replicas are applied one by one, which corrections go by.
  bool tells_staleness = false;
  /// Epochs after which all adopt the weights of the best; 0: never.
  double adopt_every = 0;
  /// Evaluations and checkpoints take the mean of the replicas' BatchNorm
  /// statistics, not those of replica 1; training keeps each replica's own.
  bool mean_statistics = true;
  /// Compressor of the gradients, or movements, that the replicas exchange.
  CompressorKind compressor = {};
  /// Whether a compressor may make their movements smaller.
  bool gives_movements = false;
  /// Tensors that a replica publishes for each parameter.
  int offered = 1;
  /// A key that is set, and is of exchanges in lockstep; empty: none.
  std::string lockstep_key = {};
  /// Maker of a replica's rules, for the parameters of a block; empty: it has
  /// none.
  std::function<ReplicaRules(const NamedTensors& parameters,
                             const ReplicaSite& site)>
      make = nullptr;
  /// Maker of the rule that serves replicas one after the other, when they are
  /// ready (ReplicaExchange::served), for the parameters of a block. Empty:
  /// they can't come so.
  std::function<std::unique_ptr<CentreRule>(const NamedTensors& parameters,
                                            const CentreSite& site)>
      make_centre = nullptr;
  /// Whether replicas bring a centre the weights after an update, whatever
  /// `exchange` says.
  bool brings_updated = false;
  /// n of n-softsync, with which such a centre makes a step of members / n
  /// gradients; 0: of each.
  std::int64_t softsync = 0;
  /// Whether replicas wait for others at the centre. `backup`: replicas on
  /// whose gradients a step doesn't wait. Or how many are averaged at least (0:
  /// all), and after what grace, in seconds; nothing: it follows the arrivals
  /// (Periods).
  bool waits = false;
  std::int64_t backup = 0;
  std::int64_t quorum = 0;
  std::optional<double> grace = 0;
};

/// Whether each replica clips the gradients that it gives.
bool clips_own(const OptimizerOptions& options, ExchangedTensors what);

/// Quorum of a centre for so many replicas.
Quorum quorum_of(const ReplicaKind& kind, int members);

/// Reads the options of a policy, beside its name. Not only a plain function:
/// what makes a policy in Python is an object.
using MakeReplicas = std::function<ReplicaKind(Fields& fields)>;
using ReplicaPolicyRow = Row<MakeReplicas>;

/// Rows of all policies. A new policy is one source file and one row.
std::span<const ReplicaPolicyRow> replica_policies();

}  // namespace sluice
