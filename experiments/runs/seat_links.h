#pragma once

#include <chrono>
#include <map>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/faults/fault_injector.h"
#include "experiments/runs/gpu_links.h"
#include "experiments/runs/worker_arguments.h"
#include "lib/base/channel.h"
#include "lib/engines/heartbeat.h"
#include "transport/meeting/rendezvous.h"

namespace sluice {

/// A worker's links, those to the other replicas of its block included; of
/// itself an empty one.
struct SeatLinks : ChainLinks {
  std::vector<Link> replicas = {};  ///< index r-1
  /// With several neighbours on a side, by seat: not yet one link.
  std::map<int, Link> all_below = {};
  std::map<int, Link> all_above = {};
};

/// Joined to the others; what the injector does to links is done to these.
SeatLinks join_others(IoThread& io, const Experiment& experiment,
                      const WorkerArguments& arguments,
                      RendezvousOptions options, FaultInjector& injector,
                      GpuLinks& gpu);

/// The same links; waits show in the heartbeat, of which the launcher is told
/// every `period`.
SeatLinks with_waits_shown(SeatLinks links, Heartbeat& heartbeat,
                           const Experiment& experiment, int seat,
                           std::chrono::milliseconds period);

}  // namespace sluice
