// What the replicas agree on before an evaluation or a checkpoint. The first,
// which evaluates and saves, gets it.
#include <memory>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/tensors/gpu/staging.h"
#include "lib/workers/exchanges/exchange.h"
#include "lib/workers/exchanges/published.h"
#include "lib/workers/exchanges/statistics.h"

namespace sluice {

std::unique_ptr<Exchange> agreement(const ExchangeSite& site);

namespace {

class GroupAgreement final : public Exchange {
 public:
  explicit GroupAgreement(const ExchangeSite& site)
      : group_(*site.group),
        trained_(site.trained),
        rules_(site.rules),
        statistics_(site.block, site.kind.mean_statistics) {}

  void publish(const ExchangeContext& /*context*/) override {
    const at::NoGradGuard no_grad;
    if (rules_.memory) rules_.memory->before_agreement();
    Tensors all = rules_.policy
                      ? rules_.policy->agreed(values_of(trained_.all()))
                      : Tensors();
    for (at::Tensor& each : statistics_.own()) all.push_back(std::move(each));
    group_.start_sum(copies_of(all));
  }

  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    const at::NoGradGuard no_grad;
    Tensors mean = group_.finish_mean();
    if (rules_.memory) rules_.memory->after_agreement();
    if (group_.member() > 1) return {};
    const std::size_t count = rules_.policy ? trained_.all().size() : 0;
    const Tensors means(mean.begin() + static_cast<std::ptrdiff_t>(count),
                        mean.end());
    mean.resize(count);
    return {.agreed = AgreedWeights{
                .weights = rules_.policy ? rules_.policy->consensus(mean)
                                         : values_of(trained_.tensors()),
                .buffers = statistics_.with(means)}};
  }

 private:
  Group& group_;
  TrainedTensors& trained_;
  const ReplicaRules& rules_;
  const Statistics statistics_;
};

class CentreAgreement final : public Exchange {
 public:
  explicit CentreAgreement(const ExchangeSite& site)
      : centres_(*site.centres),
        trained_(site.trained),
        policy_(site.rules.policy),
        device_(site.block.device()),
        statistics_(site.block, site.kind.mean_statistics) {}

  void publish(const ExchangeContext& /*context*/) override {
    const at::NoGradGuard no_grad;
    const bool tells_weights = policy_ && centres_.own() == nullptr;
    const Tensors weights = tells_weights
                                ? policy_->agreed(values_of(trained_.tensors()))
                                : Tensors();
    centres_.arrive(on_device(copies_of(weights), c10::kCPU),
                    on_device(copies_of(statistics_.own()), c10::kCPU));
  }

  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    const at::NoGradGuard no_grad;
    centres_.await_rest();
    if (!centres_.agreed()) return {};
    const CentreAtRest& rest = *centres_.agreed();
    return {.agreed =
                AgreedWeights{.weights = on_device(rest.weights, device_),
                              .buffers = statistics_.with(rest.statistics),
                              .losses = rest.losses}};
  }

 private:
  CentreWays& centres_;
  TrainedTensors& trained_;
  const std::shared_ptr<ReplicaPolicy> policy_;  // nullptr: weights stay here
  const c10::Device device_;
  const Statistics statistics_;
};

}  // namespace

std::unique_ptr<Exchange> agreement(const ExchangeSite& site) {
  if (site.centres != nullptr) return std::make_unique<CentreAgreement>(site);
  if (site.group != nullptr) return std::make_unique<GroupAgreement>(site);
  return nullptr;
}

}  // namespace sluice
