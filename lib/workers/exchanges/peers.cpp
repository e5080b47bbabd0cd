// Gradients or weights of the peers that a graph names.
#include <memory>
#include <utility>

#include <c10/core/GradMode.h>

#include "lib/schedules/plan/exchange_table.h"
#include "lib/workers/exchanges/exchange.h"
#include "lib/workers/exchanges/peer_share.h"
#include "lib/workers/exchanges/published.h"

namespace sluice {

std::unique_ptr<Exchange> share_with_peers(const ExchangeSite& site);

namespace {

class PeerGradients final : public Exchange {
 public:
  explicit PeerGradients(const ExchangeSite& site)
      : trained_(site.trained), share_(*site.group) {}
  void publish(const ExchangeContext& context) override {
    const at::NoGradGuard no_grad;
    share_.start(laid_out_like(trained_.tensors(), context.gradients),
                 peers_of(context.plan, context.action));
  }
  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    return {.of_each = share_.finish().published};
  }

 private:
  TrainedTensors& trained_;
  PeerShare share_;
};

class PeerWeights final : public Exchange {
 public:
  explicit PeerWeights(const ExchangeSite& site)
      : trained_(site.trained),
        policy_(site.rules.policy),
        share_(*site.group) {}
  void publish(const ExchangeContext& context) override {
    const at::NoGradGuard no_grad;
    share_.start(policy_->offer(values_of(trained_.all())),
                 peers_of(context.plan, context.action));
  }
  ExchangeResult settle(const ExchangeContext& context) override {
    Mixture mixture = share_.finish();
    mixture.rate = context.last_rate;
    const at::NoGradGuard no_grad;
    return combined(
        context.plan.exchange,
        policy_->combine(values_of(trained_.all()), std::move(mixture)));
  }

 private:
  TrainedTensors& trained_;
  const std::shared_ptr<ReplicaPolicy> policy_;
  PeerShare share_;
};

}  // namespace

std::unique_ptr<Exchange> share_with_peers(const ExchangeSite& site) {
  if (site.group == nullptr) return nullptr;
  if (site.kind.exchange.what == ExchangedTensors::gradients)
    return std::make_unique<PeerGradients>(site);
  if (!site.rules.policy) return nullptr;
  return std::make_unique<PeerWeights>(site);
}

}  // namespace sluice
