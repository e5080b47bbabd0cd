#include <array>
#include <utility>

#include "lib/workers/exchanges/exchange.h"

namespace sluice {

using MakeExchange = std::unique_ptr<Exchange> (*)(const ExchangeSite& site);

std::unique_ptr<Exchange> sum_of_gradients(const ExchangeSite& site);
std::unique_ptr<Exchange> second_of_gradients(const ExchangeSite& site);
std::unique_ptr<Exchange> gather_of_weights(const ExchangeSite& site);
std::unique_ptr<Exchange> mean_of_weights(const ExchangeSite& site);
std::unique_ptr<Exchange> share_with_peers(const ExchangeSite& site);
std::unique_ptr<Exchange> adoption_of_best(const ExchangeSite& site);
std::unique_ptr<Exchange> agreement(const ExchangeSite& site);
std::unique_ptr<Exchange> sum_of_lesson(const ExchangeSite& site);
std::unique_ptr<Exchange> push_to_centre(const ExchangeSite& site);
std::unique_ptr<Exchange> pull_from_centre(const ExchangeSite& site);
std::unique_ptr<Exchange> entry_from_centre(const ExchangeSite& site);

ExchangeResult combined(const ReplicaExchange& exchange, Tensors weights) {
  if (exchange.what == ExchangedTensors::old_weights)
    return {.pulls = std::move(weights)};
  return {.weights = std::move(weights)};
}

std::unique_ptr<Exchange> make_exchange(ExchangeKind kind,
                                        const ExchangeSite& site) {
  // In the order of ExchangeKind.
  static constexpr std::array<MakeExchange, kExchanges> kRows = {
      nullptr,           sum_of_gradients, mean_of_weights,
      share_with_peers,  push_to_centre,   second_of_gradients,
      gather_of_weights, adoption_of_best, pull_from_centre,
      agreement,         sum_of_lesson,    sum_of_lesson,
      entry_from_centre};
  const MakeExchange make = kRows.at(static_cast<std::size_t>(kind));
  return make == nullptr ? nullptr : make(site);
}

}  // namespace sluice
