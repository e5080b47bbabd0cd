// Means of the weights of all replicas.
#include <memory>
#include <utility>

#include <c10/core/GradMode.h>

#include "lib/workers/exchanges/exchange.h"
#include "lib/workers/exchanges/published.h"

namespace sluice {

std::unique_ptr<Exchange> mean_of_weights(const ExchangeSite& site);

namespace {

class WeightMean final : public Exchange {
 public:
  explicit WeightMean(const ExchangeSite& site)
      : group_(*site.group),
        trained_(site.trained),
        policy_(site.rules.policy) {}
  void publish(const ExchangeContext& /*context*/) override {
    group_.start_sum(copies_of(values_of(trained_.all())));
  }
  ExchangeResult settle(const ExchangeContext& context) override {
    Mixture mixture{.mean = group_.finish_mean(),
                    .parts = group_.members(),
                    .rate = context.last_rate};
    const at::NoGradGuard no_grad;
    return combined(
        context.plan.exchange,
        policy_->combine(values_of(trained_.all()), std::move(mixture)));
  }

 private:
  Group& group_;
  TrainedTensors& trained_;
  const std::shared_ptr<ReplicaPolicy> policy_;
};

}  // namespace

std::unique_ptr<Exchange> mean_of_weights(const ExchangeSite& site) {
  if (site.group == nullptr || !site.rules.policy) return nullptr;
  return std::make_unique<WeightMean>(site);
}

}  // namespace sluice
