// Centres that are given gradients, and step by them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <ATen/ATen.h>

#include "lib/replicas/centre_rules.h"
#include "lib/replicas/taken_weights.h"
#include "lib/updates/update_chain.h"

namespace sluice {
namespace {

/// A centre that updates by gradients, and counts its updates.
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

  ServerAnswer serve(Push push) override {
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

  ServerAnswer take_back(int member) override {
    return {.tensors = taken_.give(member), .clock = clock()};
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

}  // namespace

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

}  // namespace sluice
