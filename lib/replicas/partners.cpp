#include "lib/replicas/partners.h"

#include <cstddef>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/replicas/taken_weights.h"

namespace sluice {
namespace {

class PartnerCentre final : public CentreRule {
 public:
  PartnerCentre(const NamedTensors& parameters, int host)
      : own_(named_copies(parameters, "own.")), host_(host) {}

  void begin(const Tensors& weights, std::int64_t /*clock*/) override {
    copy_into(own_, weights);
  }

  ServerAnswer serve(Push push) override {
    check_size(push, own_.size());
    for (std::size_t i = 0; i < own_.size(); ++i) {
      const at::Tensor& own = own_[i].second;
      own.add_(push.tensors[i]);
      if (push.member != host_) own.mul_(0.5);
    }
    return {.tensors = consensus()};
  }

  ServerAnswer take_back(int /*member*/) override {
    throw InternalError("no replica returns to a centre of several");
  }

  Tensors consensus() const override { return unnamed_copies(own_); }
  NamedTensors state() const override { return own_; }

 private:
  const NamedTensors own_;
  const int host_;
};

class PartnerPolicy final : public ReplicaPolicy {
 public:
  PartnerPolicy(const NamedTensors& parameters, bool is_host, bool before)
      : taken_(named_copies(parameters, "taken.")),
        is_host_(is_host),
        before_(before) {}

  void begin(const Tensors& weights) override { copy_into(taken_, weights); }

  Tensors offer(const Tensors& mine) override {
    if (is_host_) return updates_of(mine);
    return before_ ? unnamed_copies(taken_) : ReplicaPolicy::offer(mine);
  }

  Tensors combine(const Tensors& mine, Mixture mixture) override {
    Tensors weights = std::move(mixture.mean);
    if (!is_host_ && before_) {
      const Tensors updates = updates_of(mine);
      for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] = weights[i] + updates[i];
    }
    copy_into(taken_, weights);
    return weights;
  }

  /// As after the last visit: what it has done since then, none has seen.
  Tensors agreed(const Tensors& /*mine*/) const override {
    return values_of(taken_);
  }

  NamedTensors state() const override { return taken_; }

 private:
  Tensors updates_of(const Tensors& mine) const {
    Tensors all;
    for (std::size_t i = 0; i < taken_.size(); ++i)
      all.push_back(mine.at(i) - taken_[i].second);
    return all;
  }

  const NamedTensors taken_;
  const bool is_host_;
  const bool before_;
};

}  // namespace

std::unique_ptr<CentreRule> partner_centre(const NamedTensors& parameters,
                                           int host) {
  return std::make_unique<PartnerCentre>(parameters, host);
}

std::shared_ptr<ReplicaPolicy> partner_policy(const NamedTensors& parameters,
                                              bool is_host, bool before) {
  return std::make_shared<PartnerPolicy>(parameters, is_host, before);
}

}  // namespace sluice
