#pragma once

#include <cstdint>
#include <vector>

#include "transport/meeting/rendezvous.h"

namespace sluice {

/// The peers of a block in a chain of `blocks`: the one below, the one above.
inline std::vector<PeerLink> chain_peers(std::uint32_t block,
                                         std::uint32_t blocks) {
  std::vector<PeerLink> peers;
  if (block > 1) peers.push_back({.peer = block - 1});
  if (block < blocks) peers.push_back({.peer = block + 1});
  return peers;
}

}  // namespace sluice
