// Centres where replicas wait for others (Quorum).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lib/replicas/centre_rules.h"
#include "lib/replicas/replica_policy.h"
#include "lib/replicas/taken_weights.h"
#include "lib/tensors/sums.h"
#include "lib/updates/update_chain.h"

namespace sluice {
namespace {

class SummingCentre final : public CentreRule {
 public:
  SummingCentre(const NamedTensors& parameters, const UpdateOptions& options)
      : weights_(named_copies(parameters, "")),
        update_(options, weights_),
        clock_(at::zeros({1}, at::kLong)) {}

  void begin(const Tensors& weights, std::int64_t clock) override {
    copy_into(weights_, weights);
    clock_.fill_(clock);
  }

  void merge(std::vector<Push> pushes) override {
    std::vector<Tensors> gradients;
    for (Push& push : pushes) {
      check_size(push, weights_.size());
      gradients.push_back(std::move(push.tensors));
    }
    UpdateInfo info = std::move(pushes.at(0).info);
    info.replicas = static_cast<std::int64_t>(pushes.size());
    Tensors sums = sum_in_order(gradients);
    clock_.add_(1);
    rate_ = update_.apply(sums, info);
  }

  ServerAnswer give(int /*member*/) override {
    return {.tensors = unnamed_copies(weights_),
            .rate = rate_,
            .clock = clock_.item<std::int64_t>()};
  }

  ServerAnswer take_back(int member) override { return give(member); }

  Tensors consensus() const override { return unnamed_copies(weights_); }

  /// The clock by the names of what it is of, so that another cut finds it too.
  NamedTensors state() const override {
    NamedTensors all;
    for (const auto& [name, tensor] : weights_) {
      all.emplace_back("centre." + name, tensor);
      all.emplace_back("clock." + name, clock_);
    }
    for (const auto& [name, tensor] : update_.state())
      all.emplace_back("update." + name, tensor);
    return all;
  }

 private:
  const NamedTensors weights_;
  UpdateChain update_;
  at::Tensor clock_;  // [1]
  double rate_ = 0;   // of the last step
};

class AveragingCentre final : public CentreRule {
 public:
  AveragingCentre(const NamedTensors& parameters, int members,
                  std::unique_ptr<ReplicaPolicy> policy)
      : taken_(parameters, members), policy_(std::move(policy)) {}

  void begin(const Tensors& weights, std::int64_t /*clock*/) override {
    taken_.begin(weights);
    policy_->begin(weights);
  }

  void merge(std::vector<Push> pushes) override {
    std::vector<Tensors> all;
    std::vector<std::int64_t> updates;
    for (Push& push : pushes) {
      all.push_back(as_of_now(push));
      updates.push_back(push.updates);
    }
    const Tensors merged =
        policy_->combine({}, {.mean = weighted_mean_in_order(all, updates),
                              .parts = std::ssize(pushes),
                              .rate = pushes.at(0).info.rate});
    copy_into(taken_.weights(), merged);
  }

  ServerAnswer give(int member) override {
    return {.tensors = taken_.give(member)};
  }

  ServerAnswer take_back(int member) override { return give(member); }

  Tensors consensus() const override {
    return unnamed_copies(taken_.weights());
  }

  NamedTensors state() const override {
    NamedTensors all = taken_.state();
    const NamedTensors of_policy = policy_->state();
    all.insert(all.end(), of_policy.begin(), of_policy.end());
    return all;
  }

 private:
  /// Weights of the replica as if it had begun at the present ones: what was
  /// merged since it began counts beside its own movement.
  Tensors as_of_now(const Push& push) const {
    const NamedTensors& weights = taken_.weights();
    check_size(push, weights.size());
    const NamedTensors& before = taken_.by(push.member);
    Tensors moved;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const at::Tensor& now = weights[i].second;
      const at::Tensor& began = before[i].second;
      moved.push_back(began.equal(now) ? push.tensors[i]
                                       : now + (push.tensors[i] - began));
    }
    return moved;
  }

  const TakenWeights taken_;
  const std::unique_ptr<ReplicaPolicy> policy_;
};

}  // namespace

std::unique_ptr<CentreRule> summing_centre(const NamedTensors& parameters,
                                           const UpdateOptions& options) {
  return std::make_unique<SummingCentre>(parameters, options);
}

std::unique_ptr<CentreRule> averaging_centre(
    const NamedTensors& parameters, int members,
    std::unique_ptr<ReplicaPolicy> policy) {
  return std::make_unique<AveragingCentre>(parameters, members,
                                           std::move(policy));
}

}  // namespace sluice
