#include "experiments/runs/gpu_links.h"

#include <algorithm>
#include <utility>

#include "experiments/runs/devices.h"
#include "lib/schedules/executors.h"
#include "lib/tensors/cuda_ipc.h"
#include "lib/tensors/device.h"
#include "lib/tensors/staged_sender.h"
#include "lib/tensors/staging.h"
#include "transport/shared/ipc_link.h"
#include "transport/shared/shared_memory.h"

namespace sluice {
namespace {

/// Whether messages go from one to the other: seats of one replica.
bool are_neighbours(const Experiment& experiment, int seat, int other) {
  const SeatNames names = experiment.seat_names();
  return other >= 1 && other <= experiment.seats() &&
         names.replica_of(seat) == names.replica_of(other);
}

bool seat_is_on_gpu(const Experiment& experiment, int seat) {
  return is_on_gpu(experiment, experiment.seat_names().block_of(seat));
}

}  // namespace

GpuLinks::GpuLinks(const Experiment& experiment, int block, bool one_launcher)
    : on_gpu_(seat_is_on_gpu(experiment, block) && count_gpus() > 0) {
  if (!on_gpu_ || !one_launcher) return;
  below_.by_ipc = by_ipc(experiment, block, block - 1);
  above_.by_ipc = by_ipc(experiment, block, block + 1);
  if (below_.by_ipc || above_.by_ipc)
    device_ = cuda_ipc_device(device_of_seat(experiment, block));
}

bool GpuLinks::by_ipc(const Experiment& experiment, int block,
                      int neighbour) const {
  return experiment.cuda_ipc && experiment.transport == "shared_memory" &&
         are_neighbours(experiment, block, neighbour) &&
         seat_is_on_gpu(experiment, neighbour) &&
         // A process can't open a handle of its own.
         executor_of(experiment.plans.front(), block) !=
             executor_of(experiment.plans.front(), neighbour) &&
         has_cuda_ipc(device_of_seat(experiment, block),
                      device_of_seat(experiment, neighbour));
}

void GpuLinks::ask_for(const Capacity& below, const Capacity& above,
                       RendezvousOptions& options) {
  if (on_gpu_) options.buffers = pinned_buffers();
  if (!device_) return;
  options.shared_memory =
      with_parcels(options.shared_memory, std::max(below.down, above.up));
  slots_ = options.shared_memory.slots;
}

void GpuLinks::take_slots(const ChainLinks& links) {
  if (below_.by_ipc) below_.slots = slots_of(*links.below.sender);
  if (above_.by_ipc) above_.slots = slots_of(*links.above.sender);
}

ChainLinks GpuLinks::around(ChainLinks links) const {
  if (!on_gpu_) return links;
  links.below = around(std::move(links.below), below_);
  links.above = around(std::move(links.above), above_);
  return links;
}

Link GpuLinks::around(Link link, const Boundary& boundary) const {
  if (!link.sender) return link;  // no neighbour
  link.sender = staged_sender(std::move(link.sender), boundary.traffic);
  if (!boundary.by_ipc) return link;
  link.sender = ipc_sender(std::move(link.sender), boundary.slots, slots_,
                           device_, boundary.traffic);
  link.receiver = ipc_receiver(std::move(link.receiver), device_);
  return link;
}

void GpuLinks::describe(records::Block& block) const {
  if (!on_gpu_) return;
  block.up_by_ipc = above_.traffic->by_ipc;
  block.up_through_host = above_.traffic->through_host;
  block.down_by_ipc = below_.traffic->by_ipc;
  block.down_through_host = below_.traffic->through_host;
}

}  // namespace sluice
