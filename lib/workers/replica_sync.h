#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/blocks/block.h"
#include "lib/replicas/centre/centre_ways.h"
#include "lib/replicas/compressor.h"
#include "lib/replicas/group.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/plan/op.h"
#include "lib/tensors/tensors.h"
#include "lib/workers/exchanges/exchange.h"
#include "lib/workers/trained/trained_tensors.h"

namespace sluice {

/// What an update did.
struct AppliedUpdate {
  double rate = 0;  ///< the learning rate
  /// Updates that a centre had made; nothing: the replica made one.
  std::optional<std::int64_t> clock = {};
  /// Updates of all since the forwards, where they share the weights.
  std::optional<std::int64_t> late_by = {};
};

/// A seat's part in its block's replicas: the way to the others, its rules, and
/// an exchange of each kind that it has. Used by the seat's thread.
class ReplicaSync {
 public:
  /// Means by which the replica reaches the others of its block.
  struct Endpoints {
    std::unique_ptr<Group> group = nullptr;
    /// The ways to the block's centres, where replicas come to these when they
    /// are ready; then there is no group.
    std::unique_ptr<CentreWays> centres = nullptr;
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

  /// The exchange of that kind, which the run's config has.
  Exchange& exchange(ExchangeKind kind);
  /// Keeps for the next update what replicas have given for it.
  void keep(ExchangeResult taken);
  /// Gradients that the next update applies one by one; empty: those of the
  /// window are all.
  const std::vector<Tensors>& steps() const { return next_.of_each; }
  /// The update: by the gradients of the window, or by what the replicas have
  /// given. What is left of the gradients, and `storage`, are as of
  /// TrainedTensors::apply().
  AppliedUpdate apply(Tensors& gradients, const UpdateInfo& info,
                      const Tensors& storage);
  /// Whether a centre makes the block's updates, of the gradients that it is
  /// given.
  bool pushes_gradients() const {
    return centres_ && what() == ExchangedTensors::gradients;
  }
  /// Whether each replica updates a part of the weights, which are gathered
  /// after it.
  bool gathers() const { return group_ && kind_.exchange.shards; }
  /// Lateness of a gradient, as StepRule::late_by(); nothing: it isn't known
  /// before the update.
  std::optional<std::int64_t> late_by(std::int64_t updates) const;
  /// Passes a loss on to AdoptionRule::lost().
  void lost(const at::Tensor& loss, double share);
  /// Whether they have one copy of the weights in memory.
  bool share_weights() const { return rules_.memory != nullptr; }
  /// Sets the weights to those that the batches of the next update shall see.
  /// No batch in flight may refer to them as they are.
  void before_forward();

  /// Calls CentreLink::admit().
  void admit(int member, std::int64_t life, Link link) {
    centres_->only().admit(member, life, std::move(link));
  }
  /// Calls CentreLink::deal().
  std::optional<std::int64_t> deal(std::int64_t first, std::int64_t end) {
    return centres_->only().deal(first, end);
  }

  /// Bytes that the centre beside this replica kept at the last agreement, and
  /// this replica of what it said; nothing: none is there.
  std::optional<std::int64_t> centre_bytes() const;
  /// CentreAtRest::awaited of the last agreement, if it is finite.
  std::optional<double> awaited() const;
  /// Most bytes that a centre for so many replicas of this block would keep.
  std::int64_t bytes_of_centre(int members) const;

  /// Bytes of compressed gradients that were sent; nothing: none are
  /// compressed.
  std::optional<std::int64_t> compressed_bytes() const;

  NamedTensors state() const;
  void restore(const NamedTensors& state, std::string_view source);
  /// What the centre knows of batches, where this replica opens it and a dealer
  /// deals: beside state(), since its size changes.
  std::optional<DealtBatches> centre_batches() const;
  void restore_centre_batches(DealtBatches batches) {
    restored_batches_ = std::move(batches);
  }
  /// Notes for the centre that a lost replica begins again
  /// (CentreOpening::returning).
  void rejoin(int member) { returning_.push_back(member); }

 private:
  /// The centre that this replica opens; nullptr: none.
  CentreLink* own_centre() const {
    return centres_ ? centres_->own() : nullptr;
  }
  ReplicaSite rules_site(std::uint64_t seed) const;
  CentreAtRest rest_at_once(int members) const;
  NamedTensors centre_state() const;
  void take_travelled();
  double apply_steps(const UpdateInfo& info, Tensors storage);
  ExchangeSite site();

  const Block& block_;
  TrainedTensors& trained_;
  const ReplicaKind kind_;
  const std::unique_ptr<Group> group_;
  const std::unique_ptr<CentreWays> centres_;
  ReplicaRules rules_;
  std::unique_ptr<GradientExchange> compressed_;  // gradients; nullptr: aren't
  std::array<std::unique_ptr<Exchange>, kExchanges> exchanges_;
  ExchangeResult next_;  // what replicas have given for the next update
  // What the centre is opened with:
  std::int64_t clock_ = 0;
  NamedTensors restored_centre_;
  DealtBatches restored_batches_;
  std::vector<int> returning_;
  bool has_begun_ = false;
  bool was_restored_ = false;
};

/// The weights of the centres in the state of replica 1, by the names of the
/// parameters.
NamedTensors centre_weights_in(const NamedTensors& state);

}  // namespace sluice
