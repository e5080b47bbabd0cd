#include "lib/replicas/centre_rules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/replicas/sums.h"
#include "lib/updates/update_chain.h"

namespace sluice {
namespace {

NamedTensors named_copies(const NamedTensors& tensors,
                          const std::string& prefix) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(prefix + name, tensor.detach().clone());
  return copies;
}

Tensors unnamed_copies(const NamedTensors& tensors) {
  Tensors copies;
  for (const auto& [name, tensor] : tensors) copies.push_back(tensor.clone());
  return copies;
}

void copy_into(const NamedTensors& into, const Tensors& from) {
  for (std::size_t i = 0; i < into.size(); ++i)
    into[i].second.copy_(from.at(i));
}

void check_size(const Push& push, std::size_t parameters) {
  if (push.tensors.size() != parameters)
    throw LinkError("replica {} brings {} tensors for {} parameters",
                    push.member, push.tensors.size(), parameters);
}

/// The weights of the centre, and those that each replica has taken last.
class TakenWeights {
 public:
  TakenWeights(const NamedTensors& parameters, int members)
      : weights_(named_copies(parameters, "")) {
    for (int member = 1; member <= members; ++member)
      taken_.push_back(
          named_copies(parameters, fmt::format("taken.{}.", member)));
  }

  void begin(const Tensors& weights) const {
    copy_into(weights_, weights);
    for (const NamedTensors& each : taken_) copy_into(each, weights);
  }
  const NamedTensors& weights() const { return weights_; }
  const NamedTensors& by(int member) const { return by_block(taken_, member); }
  /// The replica takes the weights that the centre has now.
  Tensors give(int member) const {
    copy_into(by(member), values_of(weights_));
    return unnamed_copies(weights_);
  }
  NamedTensors state() const {
    NamedTensors all;
    for (const auto& [name, tensor] : weights_)
      all.emplace_back("centre." + name, tensor);
    for (const NamedTensors& each : taken_)
      all.insert(all.end(), each.begin(), each.end());
    return all;
  }

 private:
  NamedTensors weights_;
  std::vector<NamedTensors> taken_;  // by replica
};

/// Updates by gradients, and how many there were.
class SteppedCentre : public CentreRule {
 public:
  SteppedCentre(const NamedTensors& parameters, const UpdateOptions& options,
                int members)
      : taken_(parameters, members),
        update_(options, taken_.weights()),
        clock_(at::zeros({1}, at::kLong)) {}

  void begin(const Tensors& weights, std::int64_t clock) override {
    taken_.begin(weights);
    clock_.fill_(clock);
  }

  Served serve(Push push) override {
    check_size(push, taken_.weights().size());
    const std::int64_t missed = clock() - push.clock;
    push.info.in_updates.sum += missed * push.info.batches;
    push.info.in_updates.most += missed;
    const int member = push.member;
    const double rate = take(std::move(push));
    return {.tensors = taken_.give(member),
            .rate = rate,
            .clock = clock(),
            .missed = missed};
  }

  Tensors consensus() const override {
    return unnamed_copies(taken_.weights());
  }

  /// The clock by the names of what it is of, so that another cut finds it too.
  NamedTensors state() const override {
    NamedTensors all = taken_.state();
    for (const auto& [name, tensor] : update_.state())
      all.emplace_back("update." + name, tensor);
    for (const auto& [name, tensor] : taken_.weights())
      all.emplace_back("clock." + name, clock_);
    return all;
  }

 protected:
  /// Does with the gradients what the rule says; returns the rate.
  virtual double take(Push push) = 0;

  double step(Tensors gradients, const UpdateInfo& info) {
    clock_.add_(1);
    return update_.apply(gradients, info);
  }
  const TakenWeights& taken() const { return taken_; }

 private:
  std::int64_t clock() const { return clock_.item<std::int64_t>(); }

  const TakenWeights taken_;
  UpdateChain update_;
  at::Tensor clock_;  // [1]
};

class GradientCentre final : public SteppedCentre {
 public:
  using SteppedCentre::SteppedCentre;

 private:
  double take(Push push) override {
    push.info.forward_weights = values_of(taken().by(push.member));
    return step(std::move(push.tensors), push.info);
  }
};

class SoftsyncCentre final : public SteppedCentre {
 public:
  SoftsyncCentre(const NamedTensors& parameters, const UpdateOptions& options,
                 int members, std::int64_t gradients)
      : SteppedCentre(parameters, options, members),
        gradients_(gradients),
        come_(at::zeros({1}, at::kLong)) {
    for (const auto& [name, tensor] : parameters)
      sums_.emplace_back("sum." + name, at::zeros_like(tensor));
  }

  void begin(const Tensors& weights, std::int64_t clock) override {
    SteppedCentre::begin(weights, clock);
    clear();
  }

  NamedTensors state() const override {
    NamedTensors all = SteppedCentre::state();
    all.insert(all.end(), sums_.begin(), sums_.end());
    for (const auto& [name, tensor] : taken().weights())
      all.emplace_back("come." + name, come_);
    return all;
  }

 private:
  double take(Push push) override {
    const UpdateInfo& info = push.info;
    const double late = info.in_updates.mean_over(info.batches);
    const double part =
        1 / (static_cast<double>(gradients_) * std::max(1.0, late));
    for (std::size_t i = 0; i < sums_.size(); ++i)
      if (push.tensors[i].defined())
        sums_[i].second.add_(push.tensors[i], part);
    come_.add_(1);
    if (come_.item<std::int64_t>() < gradients_) return info.rate;
    Tensors mean;
    for (std::size_t i = 0; i < sums_.size(); ++i)
      mean.push_back(push.tensors[i].defined() ? sums_[i].second.clone()
                                               : at::Tensor());
    clear();
    return step(std::move(mean), info);
  }

  void clear() {
    for (const auto& [name, sum] : sums_) sum.zero_();
    come_.zero_();
  }

  const std::int64_t gradients_;  // to a step
  NamedTensors sums_;             // of those that have come
  at::Tensor come_;               // [1]: how many
};

class MovementCentre final : public CentreRule {
 public:
  MovementCentre(const NamedTensors& parameters, int members, double part)
      : taken_(parameters, members), part_(part) {}

  void begin(const Tensors& weights, std::int64_t /*clock*/) override {
    taken_.begin(weights);
  }

  Served serve(Push push) override {
    const NamedTensors& weights = taken_.weights();
    check_size(push, weights.size());
    const NamedTensors& before = taken_.by(push.member);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i].second.add_((push.tensors[i] - before[i].second) * part_);
    return {.tensors = taken_.give(push.member)};
  }

  Tensors consensus() const override {
    return unnamed_copies(taken_.weights());
  }

  NamedTensors state() const override { return taken_.state(); }

 private:
  const TakenWeights taken_;
  const double part_;
};

class ElasticCentre final : public CentreRule {
 public:
  ElasticCentre(const NamedTensors& parameters, double alpha)
      : centre_(named_copies(parameters, "centre.")), alpha_(alpha) {}

  void begin(const Tensors& weights, std::int64_t /*clock*/) override {
    copy_into(centre_, weights);
  }

  Served serve(Push push) override {
    check_size(push, centre_.size());
    Tensors pulls;
    for (std::size_t i = 0; i < centre_.size(); ++i) {
      const at::Tensor& centre = centre_[i].second;
      pulls.push_back((centre - push.tensors[i]) * alpha_);
      centre.sub_(pulls.back());
    }
    return {.tensors = std::move(pulls)};
  }

  Tensors consensus() const override { return unnamed_copies(centre_); }

  NamedTensors state() const override { return centre_; }

 private:
  const NamedTensors centre_;
  const double alpha_;
};

/// Has the weights of all replicas, for none can be asked while it computes.
class PairCentre final : public CentreRule {
 public:
  PairCentre(const NamedTensors& parameters, int members,
             const PeerGraph& graph, bool before)
      : taken_(parameters, members),
        graph_(graph),
        before_(before),
        visits_(at::zeros({members}, at::kLong)) {
    for (int member = 1; member <= members; ++member)
      own_.push_back(named_copies(parameters, fmt::format("own.{}.", member)));
  }

  void begin(const Tensors& weights, std::int64_t /*clock*/) override {
    taken_.begin(weights);
    for (const NamedTensors& each : own_) copy_into(each, weights);
    visits_.zero_();
  }

  Served serve(Push push) override {
    const NamedTensors& own = by_block(own_, push.member);
    check_size(push, own.size());
    const NamedTensors& other = by_block(own_, partner_of(push.member));
    const NamedTensors& before = taken_.by(push.member);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const at::Tensor update = push.tensors[i] - before[i].second;
      if (!before_) own[i].second.add_(update);
      own[i].second.add_(other[i].second).mul_(0.5);
      other[i].second.copy_(own[i].second);
      if (before_) own[i].second.add_(update);
    }
    copy_into(before, values_of(own));
    return {.tensors = unnamed_copies(own)};
  }

  /// The mean of all.
  Tensors consensus() const override {
    std::vector<Tensors> all;
    for (const NamedTensors& each : own_) all.push_back(values_of(each));
    Tensors mean = sum_in_order(all);
    for (at::Tensor& tensor : mean)
      tensor = tensor / static_cast<std::int64_t>(own_.size());
    return mean;
  }

  NamedTensors state() const override {
    NamedTensors all = taken_.state();
    for (const NamedTensors& each : own_)
      all.insert(all.end(), each.begin(), each.end());
    for (const auto& [name, tensor] : taken_.weights())
      all.emplace_back("visits." + name, visits_);
    return all;
  }

 private:
  /// Of the member's next exchange.
  int partner_of(int member) {
    const at::Tensor visits = visits_[member - 1];
    const auto exchange = visits.item<std::int64_t>();
    visits.add_(1);
    return drawn_neighbour(graph_, static_cast<int>(own_.size()), member,
                           exchange);
  }

  const TakenWeights taken_;
  const PeerGraph graph_;
  const bool before_;
  at::Tensor visits_;              // by member: exchanges so far
  std::vector<NamedTensors> own_;  // by replica
};

}  // namespace

std::unique_ptr<CentreRule> pair_centre(const NamedTensors& parameters,
                                        int members, const PeerGraph& graph,
                                        bool before) {
  return std::make_unique<PairCentre>(parameters, members, graph, before);
}

std::unique_ptr<CentreRule> gradient_centre(const NamedTensors& parameters,
                                            const UpdateOptions& options,
                                            int members) {
  return std::make_unique<GradientCentre>(parameters, options, members);
}

std::unique_ptr<CentreRule> softsync_centre(const NamedTensors& parameters,
                                            const UpdateOptions& options,
                                            int members,
                                            std::int64_t gradients) {
  return std::make_unique<SoftsyncCentre>(parameters, options, members,
                                          gradients);
}

std::unique_ptr<CentreRule> movement_centre(const NamedTensors& parameters,
                                            int members, double part) {
  return std::make_unique<MovementCentre>(parameters, members, part);
}

std::unique_ptr<CentreRule> elastic_centre(const NamedTensors& parameters,
                                           double alpha) {
  return std::make_unique<ElasticCentre>(parameters, alpha);
}

}  // namespace sluice
