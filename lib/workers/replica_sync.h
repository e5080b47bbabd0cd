#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/blocks/block.h"
#include "lib/replicas/centre.h"
#include "lib/replicas/compressor.h"
#include "lib/replicas/group.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/peers.h"
#include "lib/tensors/tensors.h"
#include "lib/workers/evaluated_weights.h"
#include "lib/workers/trained_tensors.h"

namespace sluice {

/// Exchanges of a seat with the other replicas of its block. Used by the seat's
/// thread.
class ReplicaSync {
 public:
  /// Means by which the replica reaches the others of its block.
  struct Endpoints {
    std::unique_ptr<Group> group = nullptr;
    /// The block's centre, where replicas come to one when they are ready; then
    /// there is no group.
    std::unique_ptr<CentreLink> centre = nullptr;
  };
  /// Without endpoints the block has one replica. Block and trained tensors
  /// outlive it. seed: the run's.
  ReplicaSync(const Block& block, TrainedTensors& trained,
              const ReplicaKind& kind, Endpoints ways, std::uint64_t seed);

  std::int64_t members() const;
  ExchangedTensors what() const { return kind_.exchange.what; }
  /// To be called before the first action of a run, and harmless later: the
  /// policy begins with the weights that there are, unless it was restored.
  /// clock: updates that a centre had made when it had these weights.
  void begin(std::int64_t clock);
  /// Ends the exchanges, after the last action: the other replicas may go on.
  void finish();

  /// Publishes gradients, which are those of that update, or, by the policy,
  /// weights.
  void publish(const Tensors& gradients, const ExchangedUpdate& update);
  /// Ends the first round of an exchange that has two; publish_second() begins
  /// the other.
  void settle_first();
  void publish_second();
  /// The sums of the gradients that all have published, of sharded ones
  /// parts_of() them, where the update can do with these; or the means of the
  /// weights.
  Tensors settle();
  /// Whether each replica updates a part of the weights, which are gathered
  /// after it.
  bool gathers() const { return group_ && kind_.exchange.shards; }
  void publish_parts();
  void settle_parts();
  /// Publishes the gradients of a lesson, and gives their sums.
  void publish_lesson(const Learners& learners, const Tensors& gradients);
  Tensors settle_lesson();
  /// Combines weights by ReplicaPolicy::combine().
  Tensors combine(const Tensors& mean, double rate);

  /// Publishes to peers. The seat gets what they have published and its own, in
  /// the order of the replicas.
  void publish_to(const Peers& peers, const Tensors& gradients);
  std::vector<Tensors> settle_gradients() { return settle_mixture().published; }
  /// A step by the gradients of each; returns the rate of the last. What is
  /// left of them, and `storage`, are as of TrainedTensors::apply().
  double apply(std::vector<Tensors>& gradients, const UpdateInfo& info,
               Tensors storage);
  /// Lateness of a gradient, as ReplicaPolicy::late_by().
  std::int64_t late_by(std::int64_t updates) const {
    return policy_ ? policy_->late_by(updates) : updates;
  }
  /// Mixes weights by ReplicaPolicy::mix().
  Tensors settle_mixed();

  /// Publishes all weights and statistics, for all to choose the best replica's
  /// (ReplicaPolicy::badness()). Settled, the block has its statistics, and
  /// what is given are its weights.
  void publish_whole();
  Tensors settle_best();
  /// Passes a loss on to ReplicaPolicy::lost().
  void lost(const at::Tensor& loss, double share);

  /// Whether they have one copy of the weights in memory.
  bool share_weights() const { return group_ && kind_.exchange.in_memory; }
  /// Sets the weights to those that the batches of the next update shall see.
  /// No batch in flight may refer to them as they are.
  void before_forward();
  /// Called around each change of the weights by an update.
  void before_update();
  void after_update();

  /// Publishes and settles what the replicas agree on before an evaluation or a
  /// checkpoint. The first, which evaluates and saves, gets it.
  void publish_agreement();
  void settle_agreement(EvaluatedWeights& evaluated);

  /// Whether a centre serves the replicas in the order of their arrival.
  bool is_served() const { return centre_ != nullptr; }
  /// Brings gradients, which are those of that update, or, by the policy,
  /// weights to the centre, and waits to be served. clock: that of the weights
  /// that the replica has.
  ServerAnswer visit_centre(const Tensors& gradients, const UpdateInfo& info,
                            std::int64_t clock);

  /// Pushes gradients where replicas wait for others (Quorum): brings them, the
  /// last of that batch, and returns their place; take() then waits for what is
  /// made of them (Centre::take()).
  std::int64_t bring(const Tensors& gradients, const UpdateInfo& info,
                     std::int64_t clock, std::int64_t batch);
  MergeResult take(bool told) { return centre_->take(told); }
  /// Bytes that the centre keeps, if it lies with this replica.
  std::optional<std::int64_t> centre_bytes() const;
  /// Most bytes that a centre for so many replicas of this block would keep.
  std::int64_t bytes_of_centre(int members) const;

  /// Bytes of compressed gradients that were sent; nothing: none are
  /// compressed.
  std::optional<std::int64_t> compressed_bytes() const;

  NamedTensors state() const;
  void restore(const NamedTensors& state, std::string_view source);
  /// Called after such a return: Centre::rejoin(), if the centre lies with this
  /// replica.
  void rejoin(int member);

 private:
  bool sums_parts() const;
  Tensors weights() const;
  Push push_of(const Tensors& gradients, const UpdateInfo& info,
               std::int64_t clock) const;
  Tensors buffers() const;
  void show(const Tensors& weights, const Tensors& statistics,
            EvaluatedWeights& evaluated) const;
  Mixture settle_mixture();

  const Block& block_;
  TrainedTensors& trained_;
  const ReplicaKind kind_;
  const std::unique_ptr<Group> group_;
  const std::unique_ptr<CentreLink> centre_;
  std::unique_ptr<ReplicaPolicy> policy_;
  std::unique_ptr<GradientExchange> compressed_;  // gradients; nullptr: aren't
  bool has_begun_ = false;
  bool was_restored_ = false;
  Tensors own_;  // published to peers, and not settled
  Peers peers_;
};

/// The weights of the centres in the state of replica 1, by the names of the
/// parameters.
NamedTensors centre_weights_in(const NamedTensors& state);

}  // namespace sluice
