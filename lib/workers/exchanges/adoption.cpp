// Whole replicas, of which all adopt the weights and statistics of the best.
#include <iterator>
#include <limits>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/workers/exchanges/exchange.h"
#include "lib/workers/exchanges/peer_share.h"
#include "lib/workers/exchanges/published.h"

namespace sluice {

std::unique_ptr<Exchange> adoption_of_best(const ExchangeSite& site);

namespace {

/// The replica, from 0, whose last tensor is the lowest number, the first of
/// several; one that isn't a number is the worst.
std::size_t best_of(const std::vector<Tensors>& published) {
  std::size_t best = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < published.size(); ++r) {
    const double badness = published[r].back().item<double>();
    if (!(badness < lowest)) continue;
    lowest = badness;
    best = r;
  }
  return best;
}

class Adoption final : public Exchange {
 public:
  explicit Adoption(const ExchangeSite& site)
      : block_(site.block),
        trained_(site.trained),
        rule_(site.rules.adoption),
        share_(*site.group) {
    for (int other = 1; other <= site.group->members(); ++other)
      if (other != site.group->member()) others_.to.push_back(other);
    others_.from = others_.to;
  }

  void publish(const ExchangeContext& /*context*/) override {
    const at::NoGradGuard no_grad;
    Tensors all = copies_of(values_of(trained_.tensors()));
    for (const auto& [name, buffer] : block_.buffers())
      all.push_back(buffer.clone());
    all.push_back(rule_->badness().clone());
    share_.start(std::move(all), others_);
  }

  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    const at::NoGradGuard no_grad;
    const Mixture mixture = share_.finish();
    Tensors best = mixture.published.at(best_of(mixture.published));
    auto next = best.begin() + std::ssize(trained_.tensors());
    for (const auto& [name, buffer] : block_.buffers())
      buffer.variable_data().copy_(*next++);
    best.resize(trained_.tensors().size());
    rule_->adopted();
    return {.weights = std::move(best)};
  }

 private:
  const Block& block_;
  TrainedTensors& trained_;
  const std::shared_ptr<AdoptionRule> rule_;
  PeerShare share_;
  Peers others_;
};

}  // namespace

std::unique_ptr<Exchange> adoption_of_best(const ExchangeSite& site) {
  if (site.group == nullptr || !site.rules.adoption) return nullptr;
  return std::make_unique<Adoption>(site);
}

}  // namespace sluice
