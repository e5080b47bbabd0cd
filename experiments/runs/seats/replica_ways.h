#pragma once

#include <memory>
#include <vector>

#include <c10/core/Device.h>

#include "experiments/config/experiment.h"
#include "lib/base/memory/account.h"
#include "lib/base/messages/channel.h"
#include "lib/engines/centre_notices.h"
#include "lib/engines/heartbeat.h"
#include "lib/replicas/groups/mpi.h"
#include "lib/workers/replica_sync.h"

namespace sluice {

/// Endpoints by which a seat of a worker process reaches the other replicas of
/// its block: through `links` to them (SeatLinks::replicas), or with MPI
/// through `session`, that of the process. Its waits show in the heartbeat,
/// unless those of the links do. notices: for a centre that lies here.
ReplicaSync::Endpoints replica_ways(
    const Experiment& experiment, int seat, std::vector<Link> links,
    Heartbeat& heartbeat, const std::shared_ptr<MpiSession>& session,
    const std::shared_ptr<MemoryAccount>& memory, const c10::Device& device,
    CentreNotices& notices);

}  // namespace sluice
