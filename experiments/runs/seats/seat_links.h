#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/runs/faults/fault_injector.h"
#include "experiments/runs/seats/gpu_links.h"
#include "experiments/runs/seats/worker_arguments.h"
#include "lib/base/messages/channel.h"
#include "lib/engines/control_codec.h"
#include "lib/engines/heartbeat.h"
#include "transport/meeting/rendezvous.h"

namespace sluice {

/// A worker's links; those that its block doesn't have are empty.
struct SeatLinks {
  Link control;
  Link below;
  Link above;
  std::string run = {};             ///< what the launcher said of its run
  std::vector<Link> replicas = {};  ///< index r-1; its own is empty
  /// With several neighbours on a side, by seat: not yet one link.
  std::map<int, Link> all_below = {};
  std::map<int, Link> all_above = {};
};

/// Joined to the others; what the injector does to links is done to these.
SeatLinks join_others(IoThread& io, const Experiment& experiment,
                      const WorkerArguments& arguments,
                      RendezvousOptions options, FaultInjector& injector,
                      GpuLinks& gpu);

/// The link of a seat of replica 1 with that of a replica which joins the run;
/// nothing, which is said on stderr: it didn't come.
std::optional<Link> link_to_newcomer(IoThread& io, const Experiment& experiment,
                                     int seat, const Newcomer& newcomer,
                                     RendezvousOptions options);

/// The links with what tensors on the seat's GPU need around them, if it has
/// one.
SeatLinks around_gpu(SeatLinks links, const GpuLinks& gpu,
                     const Experiment& experiment, int seat);

/// Links whose waits show in the heartbeat, which goes to the launcher every
/// `period`.
SeatLinks with_waits_shown(SeatLinks links, Heartbeat& heartbeat,
                           const Experiment& experiment, int seat,
                           std::chrono::milliseconds period);

}  // namespace sluice
