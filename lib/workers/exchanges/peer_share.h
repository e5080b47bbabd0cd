#pragma once

#include <cstddef>
#include <vector>

#include "lib/replicas/group.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/plan/peers.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// What a replica gives to some others, with what it gets from some: its own is
/// among these. Used by one thread.
class PeerShare {
 public:
  explicit PeerShare(Group& group) : group_(group) {}

  /// mine: as of Group::start_share().
  void start(Tensors mine, const Peers& peers);
  /// Published tensors and the index of its own, as Group::finish_share().
  Mixture finish();

 private:
  Group& group_;
  Tensors own_;  // not settled
  Peers peers_;
};

}  // namespace sluice
