#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/messages/channel.h"

namespace sluice {

/// Which of some peers has a batch: of its own batches, which are every
/// `members`-th, one replica of a block has the first with peer order[0], the
/// next with order[1], and after the last of them it begins anew.
struct DealOrder {
  std::vector<std::size_t> order;
  std::int64_t members = 1;

  std::size_t peer_with(std::int64_t batch) const {
    return order[static_cast<std::size_t>(batch / members) % order.size()];
  }
};

/// One link made of those to several peers. Messages about a batch go to the
/// peer that has it, and received ones are of the peers in their order, whole
/// turns of it. Evaluations, which come where the order begins, are all of its
/// first peer, and leave it as it is.
Link dealt_link(std::vector<Link> links, const DealOrder& order);

}  // namespace sluice
