// What a replica brings to the centre of its block, and takes from it.
#include <memory>
#include <utility>

#include <c10/core/Device.h>
#include <c10/core/GradMode.h>

#include "lib/schedules/plan/exchange_table.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/workers/exchanges/exchange.h"
#include "lib/workers/exchanges/published.h"
#include "lib/workers/exchanges/statistics.h"

namespace sluice {

std::unique_ptr<Exchange> push_to_centre(const ExchangeSite& site);
std::unique_ptr<Exchange> pull_from_centre(const ExchangeSite& site);
std::unique_ptr<Exchange> entry_from_centre(const ExchangeSite& site);

namespace {

/// What a replica takes away: of gradients an update, or else weights.
ExchangeResult taken_of(const ExchangeContext& context,
                        const c10::Device& device, ServerAnswer served) {
  served.tensors = on_device(std::move(served.tensors), device);
  if (context.plan.exchange.what == ExchangedTensors::gradients)
    return {.update = std::move(served)};
  return combined(context.plan.exchange, std::move(served.tensors));
}

/// Where there are several, replicas don't wait for others, nor join.
bool has_only_centre(const ExchangeSite& site) {
  return site.centres != nullptr && !site.kind.exchange.visits_partners;
}

class Pushes final : public Exchange {
 public:
  explicit Pushes(const ExchangeSite& site)
      : centres_(*site.centres),
        trained_(site.trained),
        policy_(site.rules.policy),
        losses_(site.rules.adoption.get()),
        device_(site.block.device()) {}

  /// The push is on its way: what it brings, settle() hands over.
  void publish(const ExchangeContext& /*context*/) override {}

  ExchangeResult settle(const ExchangeContext& context) override {
    const at::NoGradGuard no_grad;
    CentreLink& centre = centres_.beside(host_of(context.plan, context.action));
    if (context.plan.exchange.quorum.is_there())
      return {.visit = CentreVisit{.place = centre.bring(push_of(context)),
                                   .is_over = false}};
    ServerAnswer served = centre.visit(push_of(context));
    const CentreVisit visit{.place = served.place, .missed = served.missed};
    ExchangeResult taken = taken_of(context, device_, std::move(served));
    if (policy_)
      taken.weights = policy_->combine(values_of(trained_.tensors()),
                                       {.mean = *std::move(taken.weights)});
    taken.visit = visit;
    return taken;
  }

 private:
  /// On the CPU, where the centre is.
  Push push_of(const ExchangeContext& context) const {
    return {.member = centres_.member(),
            .tensors = on_device(brought(context), c10::kCPU),
            .info = context.info,
            .clock = context.version,
            .batch = context.action.batch,
            .updates = context.plan.exchange.every,
            .loss = loss_since()};
  }

  Tensors brought(const ExchangeContext& context) const {
    if (context.plan.exchange.what == ExchangedTensors::gradients)
      return laid_out_like(trained_.tensors(), context.gradients);
    const Tensors mine = values_of(trained_.tensors());
    return policy_ ? policy_->offer(mine) : copies_of(mine);
  }

  /// The sum of the losses since the last push.
  double loss_since() const {
    if (!losses_) return 0;
    const auto sum = losses_->badness().item<double>();
    losses_->adopted();
    return sum;
  }

  CentreWays& centres_;
  TrainedTensors& trained_;
  const std::shared_ptr<ReplicaPolicy> policy_;  // nullptr: weights as they are
  AdoptionRule* const losses_;  // nullptr: the centre doesn't go by them
  const c10::Device device_;
};

class Pulls final : public Exchange {
 public:
  explicit Pulls(const ExchangeSite& site)
      : centre_(site.centres->only()), device_(site.block.device()) {}

  void publish(const ExchangeContext& /*context*/) override {}

  ExchangeResult settle(const ExchangeContext& context) override {
    MergeResult merged = centre_.take(context.action.arrived > 0);
    CentreVisit visit{.place = merged.served.place};
    ExchangeResult taken =
        taken_of(context, device_, std::exchange(merged.served, {}));
    visit.merged = std::move(merged);
    taken.visit = std::move(visit);
    return taken;
  }

 private:
  CentreLink& centre_;
  const c10::Device device_;
};

class Entries final : public Exchange {
 public:
  explicit Entries(const ExchangeSite& site)
      : centre_(site.centres->only()),
        device_(site.block.device()),
        statistics_(site.block, site.kind.mean_statistics) {}

  void publish(const ExchangeContext& /*context*/) override {}

  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    const at::NoGradGuard no_grad;
    CentreEntry given = centre_.enter();
    SeatEntry entry{.weights = on_device(given.served.tensors, device_),
                    .clock = given.served.clock};
    if (!given.statistics.empty())
      entry.buffers = statistics_.with(on_device(given.statistics, device_));
    return {.visit = CentreVisit{.place = given.served.place},
            .entry = std::move(entry)};
  }

 private:
  CentreLink& centre_;
  const c10::Device device_;
  const Statistics statistics_;
};

}  // namespace

std::unique_ptr<Exchange> push_to_centre(const ExchangeSite& site) {
  if (site.centres == nullptr) return nullptr;
  return std::make_unique<Pushes>(site);
}

std::unique_ptr<Exchange> pull_from_centre(const ExchangeSite& site) {
  if (!has_only_centre(site)) return nullptr;
  return std::make_unique<Pulls>(site);
}

std::unique_ptr<Exchange> entry_from_centre(const ExchangeSite& site) {
  if (!has_only_centre(site)) return nullptr;
  return std::make_unique<Entries>(site);
}

}  // namespace sluice
