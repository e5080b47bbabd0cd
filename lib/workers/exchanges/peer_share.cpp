#include "lib/workers/exchanges/peer_share.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice {

void PeerShare::start(Tensors mine, const Peers& peers) {
  peers_ = peers;
  own_ = std::move(mine);
  group_.start_share(own_, peers);
}

Mixture PeerShare::finish() {
  Mixture mixture{.published = group_.finish_share(),
                  .parts = std::ssize(peers_.to) + 1};
  const auto place = std::lower_bound(peers_.from.begin(), peers_.from.end(),
                                      group_.member()) -
                     peers_.from.begin();
  mixture.published.insert(mixture.published.begin() + place,
                           std::exchange(own_, {}));
  mixture.own = static_cast<std::size_t>(place);
  return mixture;
}

}  // namespace sluice
