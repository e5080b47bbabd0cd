// Sums of a window's gradients over all replicas: whole ones, compressed ones,
// or of each replica its part, whose weights it updates and all gather.
#include <memory>

#include "lib/workers/exchanges/exchange.h"
#include "lib/workers/exchanges/published.h"

namespace sluice {

std::unique_ptr<Exchange> sum_of_gradients(const ExchangeSite& site);
std::unique_ptr<Exchange> second_of_gradients(const ExchangeSite& site);
std::unique_ptr<Exchange> gather_of_weights(const ExchangeSite& site);
std::unique_ptr<Exchange> sum_of_lesson(const ExchangeSite& site);

namespace {

class WholeSum final : public Exchange {
 public:
  explicit WholeSum(const ExchangeSite& site) : group_(*site.group) {}
  void publish(const ExchangeContext& context) override {
    group_.start_sum(context.gradients);
  }
  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    return {.gradients = group_.finish_sum()};
  }

 private:
  Group& group_;
};

class SumOfParts final : public Exchange {
 public:
  explicit SumOfParts(const ExchangeSite& site)
      : group_(*site.group), trained_(site.trained) {}
  void publish(const ExchangeContext& context) override {
    group_.start_parts(laid_out_like(trained_.tensors(), context.gradients));
  }
  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    return {.gradients = group_.finish_parts()};
  }

 private:
  Group& group_;
  TrainedTensors& trained_;
};

class CompressedSum final : public Exchange {
 public:
  explicit CompressedSum(const ExchangeSite& site)
      : group_(*site.group),
        trained_(site.trained),
        compressed_(*site.compressed),
        rounds_(site.kind.exchange.rounds) {}
  void publish(const ExchangeContext& context) override {
    compressed_.start(laid_out_like(trained_.tensors(), context.gradients),
                      {.number = context.version, .epoch = context.epoch},
                      group_);
  }
  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    if (rounds_ == 1) return {.gradients = compressed_.finish(group_)};
    compressed_.finish_first(group_);
    return {};
  }

 private:
  Group& group_;
  TrainedTensors& trained_;
  GradientExchange& compressed_;
  const int rounds_;
};

class SecondSum final : public Exchange {
 public:
  explicit SecondSum(const ExchangeSite& site)
      : group_(*site.group), compressed_(*site.compressed) {}
  void publish(const ExchangeContext& /*context*/) override {
    compressed_.start_second(group_);
  }
  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    return {.gradients = compressed_.finish(group_)};
  }

 private:
  Group& group_;
  GradientExchange& compressed_;
};

class Gather final : public Exchange {
 public:
  explicit Gather(const ExchangeSite& site)
      : group_(*site.group), trained_(site.trained) {}
  void publish(const ExchangeContext& /*context*/) override {
    group_.start_gather(storage_of(trained_.tensors()));
  }
  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    group_.finish_gather(storage_of(trained_.tensors()));
    return {.gathered = true};
  }

 private:
  Group& group_;
  TrainedTensors& trained_;
};

class LessonSum final : public Exchange {
 public:
  explicit LessonSum(const ExchangeSite& site) : group_(*site.group) {}
  void publish(const ExchangeContext& context) override {
    group_.start_sum(
        laid_out_like(context.learners->tensors, context.gradients));
  }
  ExchangeResult settle(const ExchangeContext& /*context*/) override {
    return {.lesson = group_.finish_sum()};
  }

 private:
  Group& group_;
};

}  // namespace

std::unique_ptr<Exchange> sum_of_gradients(const ExchangeSite& site) {
  if (site.group == nullptr) return nullptr;
  if (site.compressed != nullptr) return std::make_unique<CompressedSum>(site);
  // A link of the update that wants a norm, say, is given whole sums.
  if (site.kind.exchange.shards && site.trained.update().takes_parts())
    return std::make_unique<SumOfParts>(site);
  return std::make_unique<WholeSum>(site);
}

std::unique_ptr<Exchange> second_of_gradients(const ExchangeSite& site) {
  if (site.compressed == nullptr) return nullptr;
  return std::make_unique<SecondSum>(site);
}

std::unique_ptr<Exchange> gather_of_weights(const ExchangeSite& site) {
  if (site.group == nullptr) return nullptr;
  return std::make_unique<Gather>(site);
}

std::unique_ptr<Exchange> sum_of_lesson(const ExchangeSite& site) {
  if (site.group == nullptr) return nullptr;
  return std::make_unique<LessonSum>(site);
}

}  // namespace sluice
