// A server whose weights all replicas push to and pull: Downpour SGD (Dean et
// al. 2012, "Large scale distributed deep networks", section 4.1). In lockstep
// it goes round robin: the replicas come one after the other, in their order;
// each pulls right after its own push, so that the others push N - 1 times
// before it comes again. In a free schedule they come when they are ready
// (centre_rules.h).
//
// They push gradients (n_push = n_fetch = 1), of which each is a step of the
// server's optimizer. With a correction of stale gradients that is DC-ASGD
// (Zheng et al. 2017, arXiv:1609.08326, algorithms 1 and 2) or staleness-aware
// SGD (Zhang et al. 2016, arXiv:1511.05950, equation 6, 1 gradient to an
// update). Or they train by themselves for n_push = n_fetch updates, and push
// how far they have moved; divided by those updates, that is accumulated
// gradient normalization (Hermans et al. 2017, arXiv:1710.02368, algorithm 1);
// with an outer optimizer, asynchronous DiLoCo with delayed Nesterov momentum
// (Liu et al. 2024, arXiv:2401.09135).
//
// In lockstep every replica keeps the server, from the same pushes.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/replicas/centre_rules.h"
#include "lib/replicas/delayed_nesterov.h"
#include "lib/replicas/every.h"
#include "lib/replicas/replica_policy.h"
#include "lib/replicas/taken_weights.h"

namespace sluice {

ReplicaKind server(Fields& fields);

namespace {

/// What each replica has pulled last; the last of them, in their order, has the
/// server's weights.
class PullPolicy : public ReplicaPolicy {
 public:
  PullPolicy(const NamedTensors& parameters, const ReplicaSite& site)
      : place_(static_cast<std::size_t>(site.member) - 1) {
    for (int each = 1; each <= site.members; ++each) {
      pulled_.emplace_back();
      for (const auto& [name, tensor] : parameters)
        pulled_.back().emplace_back(fmt::format("server.{}.{}", each, name),
                                    tensor.detach().clone());
    }
  }

  void begin(const Tensors& weights) override {
    for (const NamedTensors& each : pulled_) copy(weights, each);
  }

  Tensors consensus(const Tensors& /*mean*/) const override {
    return values_of(pulled_.back());
  }

  NamedTensors state() const override {
    NamedTensors all;
    for (const NamedTensors& each : pulled_)
      all.insert(all.end(), each.begin(), each.end());
    return all;
  }

 protected:
  static void copy(const Tensors& from, const NamedTensors& into) {
    for (std::size_t k = 0; k < into.size(); ++k)
      into[k].second.copy_(from.at(k));
  }
  /// Weights that each replica pulled last; index r-1.
  const std::vector<NamedTensors>& pulled() const { return pulled_; }
  Tensors own() const { return values_of(pulled_.at(place_)); }
  /// Index of this replica among all, from 0.
  std::size_t place() const { return place_; }

 private:
  const std::size_t place_;
  std::vector<NamedTensors> pulled_;
};

/// Server of replicas that push gradients.
class GradientServer final : public PullPolicy, public StepRule {
 public:
  using PullPolicy::PullPolicy;

  void begin(const Tensors& weights) override {
    PullPolicy::begin(weights);
    steps_.zero_();
  }

  Tensors before_steps() const override { return values_of(pulled().back()); }

  UpdateInfo told_of_step(std::size_t i, UpdateInfo info) const override {
    const auto replica = static_cast<std::int64_t>(i);
    Staleness& late = info.in_updates;
    const std::int64_t missed =
        missed_by(replica, steps() - replica, late.most);
    late.sum = late.sum * members() + missed * info.batches;
    late.most = late.most * members() + missed;
    info.forward_weights = values_of(pulled().at(i));
    return info;
  }

  std::int64_t late_by(std::int64_t updates) const override {
    const auto own_place = static_cast<std::int64_t>(place());
    return updates * members() + missed_by(own_place, steps(), updates);
  }

  void stepped(std::size_t i, const Tensors& weights) override {
    copy(weights, pulled().at(i));
    steps_.add_(1);
  }

  Tensors after_steps() const override { return own(); }

  NamedTensors state() const override {
    NamedTensors all = PullPolicy::state();
    // Named after the parameters, so that another cut finds them too.
    for (const auto& [name, tensor] : pulled().back())
      all.emplace_back("steps_of." + name, steps_);
    return all;
  }

 private:
  std::int64_t members() const { return std::ssize(pulled()); }
  /// Number of steps that the server has made.
  std::int64_t steps() const { return steps_.item<std::int64_t>(); }

  /// Steps, beside N for each update of its own since the forward, that are
  /// made between a replica's pull and its push: by the N - 1 others; or by
  /// those before it, where the forward saw the weights that all began with.
  /// steps_before: that were made before those of this turn.
  std::int64_t missed_by(std::int64_t replica, std::int64_t steps_before,
                         std::int64_t updates) const {
    const bool is_of_first = steps_before == updates * members();
    return is_of_first ? replica : members() - 1;
  }

  at::Tensor steps_ = at::zeros({1}, at::kLong);  // [1]
};

/// Server of replicas that push how far they have moved, or a part of it.
class MovementServer final : public PullPolicy {
 public:
  MovementServer(const NamedTensors& parameters, const ReplicaSite& site,
                 double part, const PushedStep& step)
      : PullPolicy(parameters, site), part_(part) {
    if (!step.is_plain()) outer_.emplace(step, parameters);
  }

  void begin(const Tensors& weights) override {
    PullPolicy::begin(weights);
    if (outer_) outer_->begin();
  }

  Tensors combine(const Tensors& /*mine*/, Mixture mixture) override {
    NamedTensors weights = named_copies(pulled().back(), "");
    for (std::size_t r = 0; r < mixture.published.size(); ++r) {
      const NamedTensors& before = pulled().at(r);
      Tensors moved;
      for (std::size_t k = 0; k < weights.size(); ++k)
        moved.push_back((mixture.published[r].at(k) - before[k].second) *
                        part_);
      if (outer_)
        outer_->push(weights, moved);
      else
        for (std::size_t k = 0; k < weights.size(); ++k)
          weights[k].second.add_(moved[k]);
      copy(values_of(weights), before);
    }
    return own();
  }

  NamedTensors state() const override {
    NamedTensors all = PullPolicy::state();
    if (!outer_) return all;
    const NamedTensors of_outer = outer_->state();
    all.insert(all.end(), of_outer.begin(), of_outer.end());
    return all;
  }

 private:
  const double part_;
  std::optional<DelayedNesterov> outer_;  // none: each movement is added
};

}  // namespace

ReplicaKind server(Fields& fields) {
  ReplicaKind kind{
      .exchange = {.what = ExchangedTensors::gradients, .agrees = true}};
  kind.exchange.graph.shape = PeerShape::complete;
  fields.key("push", kind.exchange.what,
             {{"gradients", ExchangedTensors::gradients},
              {"movement", ExchangedTensors::weights}},
             {.text = "what a replica sends to the server: gradients, which "
                      "the server's optimizer steps by; or how far it has "
                      "moved by its own optimizer, which the server adds"});
  describe_every(fields, kind,
                 "updates of a replica between two pushes of its movement");
  bool per_update = false;
  fields.key(
      "per_update", per_update,
      {.text = "a movement is divided by the updates that made it (AGN)"});
  kind.tells_staleness = kind.exchange.what == ExchangedTensors::gradients;
  const bool has_every = kind.exchange.every > 1 || !kind.every_of.empty();
  if (kind.tells_staleness && (has_every || per_update))
    fields.reject(per_update ? "per_update" : "every",
                  "is of push = 'movement': set that, or leave it out");
  if (per_update && !kind.every_of.empty())
    fields.reject("per_update",
                  "divides by one number of updates, and every = [...] has one "
                  "for each replica: leave one of them out");
  PushedStep step;
  step.describe(fields);
  if (kind.tells_staleness && !step.is_plain())
    fields.reject(step.every > 1            ? "outer_every"
                  : step.outer.momentum > 0 ? "outer_momentum"
                                            : "outer_lr",
                  "is of push = 'movement': set that, or leave it out");
  fields.key("softsync", kind.softsync,
             {.text = "n-softsync, with schedule = 'free': a step of the "
                      "server is by the mean of count / n gradients, whoever "
                      "brings them, each divided by its staleness; 0: by each "
                      "gradient",
              .min = 0,
              .max = 4096});
  if (kind.softsync > 0 && !kind.tells_staleness)
    fields.reject("softsync", "is of push = 'gradients': leave it out");
  const double part =
      per_update ? 1.0 / static_cast<double>(kind.exchange.every) : 1.0;
  kind.make = [pushes_gradients = kind.tells_staleness, part, step](
                  const NamedTensors& parameters,
                  const ReplicaSite& site) -> ReplicaRules {
    if (!pushes_gradients)
      return {.policy = std::make_shared<MovementServer>(parameters, site, part,
                                                         step)};
    const auto rule = std::make_shared<GradientServer>(parameters, site);
    return {.policy = rule, .steps = rule};
  };
  kind.make_centre = [pushes_gradients = kind.tells_staleness, part, step,
                      n = kind.softsync](const NamedTensors& parameters,
                                         const CentreSite& site) {
    if (n > 0)
      return softsync_centre(parameters, site.options, site.members,
                             site.members / n);
    return pushes_gradients
               ? gradient_centre(parameters, site.options, site.members)
               : movement_centre(parameters, site.members, part, step);
  };
  return kind;
}

}  // namespace sluice
