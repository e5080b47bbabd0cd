#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <c10/core/Device.h>

#include "experiments/config/experiment.h"
#include "lib/base/memory/account.h"
#include "lib/base/messages/channel.h"
#include "lib/workers/replica_sync.h"

namespace sluice {

/// The ends of the channels of one seat; empty where there is no neighbour.
struct Ends {
  Link below = {};
  Link above = {};
  ReplicaSync::Endpoints replicas = {};  ///< empty: one replica
  /// Charged with what the seat allocates; by default one is made for it.
  std::shared_ptr<MemoryAccount> memory = nullptr;
  /// Device of the seat; by default device_of_seat().
  std::optional<c10::Device> device = std::nullopt;
};

/// Channels in memory between all neighbours and replicas, by seat. later: of a
/// replay, whose record says when centres merge: replicas that join.
std::vector<Ends> memory_ends(
    const Experiment& experiment,
    const std::optional<std::set<int>>& later = std::nullopt);

/// The ends of one block of a replica that joins a replay.
struct NewcomerEnds {
  Ends ends = {};
  Link centre = {};  ///< the other end of ends.replicas.centres
};

/// Channels between the blocks of a replica, and to their centres, by block.
std::vector<NewcomerEnds> newcomer_ends(const Experiment& experiment,
                                        int replica);

}  // namespace sluice
