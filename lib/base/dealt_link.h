#pragma once

#include <cstddef>
#include <vector>

#include "lib/base/channel.h"

namespace sluice {

/// One link made of those to several peers, to which messages about batches go
/// in turn, and from which they come so: the next one is for, or of, peer
/// `order[i]` (an index into `links`), and after the last of them `order`
/// begins anew. Evaluations, which come where it begins, are all of its first
/// peer, and leave the order as it is.
Link dealt_link(std::vector<Link> links, const std::vector<std::size_t>& order);

}  // namespace sluice
