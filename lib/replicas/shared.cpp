// Replicas that share their weights in memory. Each computes on a copy of its
// own, loaded before the first forward of an update, and adds to what all have
// how far the update has moved it: no locks, and no order between replicas.
// Niu et al. 2011, "HOGWILD!: A lock-free approach to parallelizing stochastic
// gradient descent" (arXiv:1106.5730), algorithm 1, with a sample to an update;
// with a batch Sallinen et al. 2016, "High performance parallel stochastic
// gradient descent in shared memory" (doi:10.1109/IPDPS.2016.107), HogBatch.
// The optimizer's state is each replica's own.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>

#include <ATen/ATen.h>

#include "lib/replicas/group.h"
#include "lib/replicas/replica_policy.h"
#include "lib/replicas/shared_weights.h"

namespace sluice {

ReplicaKind shared(Fields& fields);

namespace {

class SharedPolicy final : public ReplicaPolicy, public MemoryRule {
 public:
  SharedPolicy(const NamedTensors& parameters, const ReplicaSite& site)
      : common_(site.group != nullptr ? site.group->shared_weights() : nullptr),
        members_(site.members) {
    for (const auto& [name, tensor] : parameters)
      kept_.emplace_back("shared." + name, tensor.detach().clone());
  }

  void begin(const Tensors& weights) override { keep(weights); }

  void before_forward(const Tensors& weights) override {
    common_->fill(kept_);
    // Counted before they are read: what comes in between is then late.
    seen_.push_front(common_->updates());
    if (std::ssize(seen_) > kRemembered) seen_.pop_back();
    since_read_ = 0;
    common_->load(weights);
  }

  void before_update(const Tensors& weights) override {
    common_->fill(kept_);
    keep(weights);
  }

  void after_update(const Tensors& weights) override {
    common_->add(values_of(kept_), weights);
    ++since_read_;
  }

  /// Updates of all replicas since the weights of that forward were read.
  std::int64_t late_by(std::int64_t updates) const override {
    const std::int64_t reads_ago = updates - since_read_;
    if (reads_ago < 0 || reads_ago >= std::ssize(seen_)) return updates;
    return common_->updates() - seen_[static_cast<std::size_t>(reads_ago)];
  }

  void before_agreement() override {
    common_->fill(kept_);
    common_->arrive(members_);
  }

  void after_agreement() override { keep(common_->settled()); }

  /// Empty tensors: no reduction takes place.
  Tensors agreed(const Tensors& mine) const override {
    return Tensors(mine.size(), at::empty({0}));
  }

  Tensors consensus(const Tensors& /*mean*/) const override {
    return values_of(kept_);
  }

  NamedTensors state() const override { return kept_; }

 private:
  static constexpr std::ptrdiff_t kRemembered = 256;

  void keep(const Tensors& weights) {
    for (std::size_t k = 0; k < kept_.size(); ++k)
      kept_[k].second.copy_(weights.at(k));
  }

  const std::shared_ptr<SharedWeights> common_;
  const int members_;
  /// Weights by time. Until the common weights are filled in: those that they
  /// begin with. In an update: the replica's own before it. From an agreement
  /// to the next update, so in evaluations and checkpoints: those that were
  /// agreed on.
  NamedTensors kept_;
  /// Updates of all that the weights had when they were read, the latest read
  /// first.
  std::deque<std::int64_t> seen_;
  std::int64_t since_read_ = 0;  // updates of its own
};

ReplicaRules make_shared_rules(const NamedTensors& parameters,
                               const ReplicaSite& site) {
  const auto rule = std::make_shared<SharedPolicy>(parameters, site);
  return {.policy = rule, .memory = rule};
}

}  // namespace

ReplicaKind shared(Fields& /*fields*/) {
  ReplicaKind kind{.exchange = {.agrees = true, .in_memory = true}};
  kind.make = make_shared_rules;
  return kind;
}

}  // namespace sluice
