// Means of the weights of all replicas, or of their compressed movements.
#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/workers/exchanges/exchange.h"

namespace sluice {

std::unique_ptr<Exchange> mean_of_weights(const ExchangeSite& site);

namespace {

class WeightMean final : public Exchange {
 public:
  explicit WeightMean(const ExchangeSite& site)
      : group_(*site.group),
        trained_(site.trained),
        policy_(site.rules.policy),
        compressed_(site.compressed) {}
  void publish(const ExchangeContext& context) override {
    const at::NoGradGuard no_grad;
    rate_ = context.last_rate;
    const Tensors mine = values_of(trained_.all());
    if (compressed_ == nullptr) return group_.start_sum(policy_->offer(mine));
    compressed_->start(policy_->movement(mine),
                       {.number = context.version, .epoch = context.epoch},
                       group_);
  }
  ExchangeResult settle(const ExchangeContext& context) override {
    const at::NoGradGuard no_grad;
    Mixture mixture{.parts = group_.members(), .rate = rate_};
    if (compressed_ == nullptr)
      mixture.mean = group_.finish_mean();
    else
      mixture.moved = mean_of(compressed_->finish(group_));
    Tensors weights =
        policy_->combine(values_of(trained_.all()), std::move(mixture));
    if (context.plan.exchange.overlap > 0) return {};
    return combined(context.plan.exchange, std::move(weights));
  }

 private:
  Tensors mean_of(Tensors sums) const {
    for (at::Tensor& sum : sums) sum = sum / group_.members();
    return sums;
  }

  Group& group_;
  TrainedTensors& trained_;
  const std::shared_ptr<ReplicaPolicy> policy_;
  GradientExchange* const compressed_;  // of movements; nullptr: they aren't
  double rate_ = 0;  // of the last update before the publication
};

}  // namespace

std::unique_ptr<Exchange> mean_of_weights(const ExchangeSite& site) {
  if (site.group == nullptr || !site.rules.policy) return nullptr;
  return std::make_unique<WeightMean>(site);
}

}  // namespace sluice
