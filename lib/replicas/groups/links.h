#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/messages/channel.h"
#include "lib/replicas/group.h"

namespace sluice {

/// Messages that a link between two replicas must hold in each direction: of
/// two sums that follow each other.
inline constexpr std::size_t kExchangeCapacity = 4;

/// The replicas of a block in processes of their own. links: index r-1 for
/// replica r; empty for `member` itself. Every replica adds up its part of the
/// elements, and sends the sums to the others: 2 (N - 1) / N of the bytes leave
/// each, as with a ring (Rabenseifner 2004, "Optimization of collective
/// reduction operations", section 2.2). `name`: "block 2".
std::unique_ptr<Group> links_group(std::vector<Link> links, int member,
                                   std::string name);

}  // namespace sluice
