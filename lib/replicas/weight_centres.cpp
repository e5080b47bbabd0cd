// Centres that are given weights.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/replicas/centre_rules.h"
#include "lib/replicas/delayed_nesterov.h"
#include "lib/replicas/taken_weights.h"
#include "lib/tensors/sums.h"

namespace sluice {
namespace {

class MovementCentre final : public CentreRule {
 public:
  MovementCentre(const NamedTensors& parameters, int members, double part,
                 const PushedStep& step)
      : taken_(parameters, members), part_(part) {
    if (!step.is_plain()) outer_.emplace(step, parameters);
  }

  void begin(const Tensors& weights, std::int64_t /*clock*/) override {
    taken_.begin(weights);
    if (outer_) outer_->begin();
  }

  ServerAnswer serve(Push push) override {
    const NamedTensors& weights = taken_.weights();
    check_size(push, weights.size());
    const NamedTensors& before = taken_.by(push.member);
    Tensors moved;
    for (std::size_t i = 0; i < weights.size(); ++i)
      moved.push_back((push.tensors[i] - before[i].second) * part_);
    if (outer_)
      outer_->push(weights, moved);
    else
      for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i].second.add_(moved[i]);
    return {.tensors = taken_.give(push.member)};
  }

  ServerAnswer take_back(int member) override {
    return {.tensors = taken_.give(member)};
  }

  Tensors consensus() const override {
    return unnamed_copies(taken_.weights());
  }

  NamedTensors state() const override {
    NamedTensors all = taken_.state();
    if (!outer_) return all;
    const NamedTensors of_outer = outer_->state();
    all.insert(all.end(), of_outer.begin(), of_outer.end());
    return all;
  }

 private:
  const TakenWeights taken_;
  const double part_;
  std::optional<DelayedNesterov> outer_;  // none: each movement is added
};

class ElasticCentre final : public CentreRule {
 public:
  ElasticCentre(const NamedTensors& parameters, double alpha)
      : centre_(named_copies(parameters, "centre.")), alpha_(alpha) {}

  void begin(const Tensors& weights, std::int64_t /*clock*/) override {
    copy_into(centre_, weights);
  }

  ServerAnswer serve(Push push) override {
    check_size(push, centre_.size());
    Tensors pulls;
    for (std::size_t i = 0; i < centre_.size(); ++i) {
      const at::Tensor& centre = centre_[i].second;
      pulls.push_back((centre - push.tensors[i]) * alpha_);
      centre.sub_(pulls.back());
    }
    return {.tensors = std::move(pulls)};
  }

  ServerAnswer take_back(int /*member*/) override {
    return {.tensors = consensus()};
  }

  Tensors consensus() const override { return unnamed_copies(centre_); }

  NamedTensors state() const override { return centre_; }

 private:
  const NamedTensors centre_;
  const double alpha_;
};

/// Centre with the weights of all replicas, because a replica can't send its
/// own while it computes.
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

  ServerAnswer serve(Push push) override {
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

  void lose(int member) override { lost_.insert(member); }

  ServerAnswer take_back(int member) override {
    lost_.insert(member);
    Tensors mean = consensus();
    lost_.erase(member);
    copy_into(by_block(own_, member), mean);
    copy_into(taken_.by(member), mean);
    return {.tensors = std::move(mean)};
  }

  /// The mean of all that are there.
  Tensors consensus() const override {
    std::vector<Tensors> all;
    for (int member = 1; member <= std::ssize(own_); ++member)
      if (!lost_.contains(member))
        all.push_back(values_of(by_block(own_, member)));
    return mean_in_order(all);
  }

  /// The centre has no weights of its own.
  NamedTensors state() const override {
    NamedTensors all;
    for (int member = 1; member <= std::ssize(own_); ++member)
      for (const NamedTensors* each :
           {&taken_.by(member), &by_block(own_, member)})
        all.insert(all.end(), each->begin(), each->end());
    for (const auto& [name, tensor] : taken_.weights())
      all.emplace_back("visits." + name, visits_);
    return all;
  }

 private:
  /// Partner of the member in its next exchange.
  int partner_of(int member) {
    const at::Tensor visits = visits_[member - 1];
    const auto exchange = visits.item<std::int64_t>();
    visits.add_(1);
    return drawn_neighbour(graph_, static_cast<int>(own_.size()), member,
                           exchange, lost_);
  }

  const TakenWeights taken_;
  const PeerGraph graph_;
  const bool before_;
  at::Tensor visits_;              // by member: exchanges so far
  std::vector<NamedTensors> own_;  // by replica
  std::set<int> lost_;
};

}  // namespace

std::unique_ptr<CentreRule> movement_centre(const NamedTensors& parameters,
                                            int members, double part,
                                            const PushedStep& step) {
  return std::make_unique<MovementCentre>(parameters, members, part, step);
}

std::unique_ptr<CentreRule> elastic_centre(const NamedTensors& parameters,
                                           double alpha) {
  return std::make_unique<ElasticCentre>(parameters, alpha);
}

std::unique_ptr<CentreRule> pair_centre(const NamedTensors& parameters,
                                        int members, const PeerGraph& graph,
                                        bool before) {
  return std::make_unique<PairCentre>(parameters, members, graph, before);
}

}  // namespace sluice
