#include "experiments/runs/gpu_links.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/base/departing_sender.h"
#include "lib/base/error.h"
#include "lib/base/lock_holder.h"
#include "lib/base/user_text.h"
#include "lib/schedules/executors.h"
#include "lib/tensors/cuda_ipc.h"
#include "lib/tensors/pinned_buffers.h"
#include "lib/tensors/registered_memory.h"
#include "lib/tensors/staged_sender.h"
#include "lib/tensors/staging.h"
#include "transport/shared/ipc_link.h"
#include "transport/shared/shared_area.h"
#include "transport/shared/shared_memory.h"

namespace sluice {
namespace {

/// The transport that can carry parcels of CUDA IPC.
constexpr std::string_view kSharedMemory = "shared_memory";

/// Whether messages go from one to the other, and both are on GPUs: seats of
/// one replica.
bool is_neighbour_on_gpu(const Experiment& experiment, int seat, int other) {
  const SeatNames names = experiment.seat_names();
  return other >= 1 && other <= experiment.seats() &&
         names.replica_of(seat) == names.replica_of(other) &&
         is_on_gpu(experiment, names.block_of(other));
}

/// "": nothing in the config is.
std::string why_config_forbids_ipc(const Experiment& experiment, int seat,
                                   int other) {
  if (experiment.transport != kSharedMemory &&
      experiment.transport != kAutoTransport)
    return fmt::format("transport = \"{}\"", experiment.transport);
  const RunPlan& plan = experiment.plans.front();
  // A process can't open a handle of its own.
  if (executor_of(plan, seat) == executor_of(plan, other))
    return "they are in one process";
  return "";
}

/// Bytes of the largest message that trains over the boundary between them.
std::size_t bytes_between(const Experiment& experiment, int seat, int other) {
  const SeatNames names = experiment.seat_names();
  const MessageBytes* const bytes =
      find_by_block(experiment.costs.bytes,
                    std::min(names.block_of(seat), names.block_of(other)));
  if (bytes == nullptr) return 0;
  return static_cast<std::size_t>(std::max(bytes->activation, bytes->gradient));
}

/// For a channel that holds so many messages, each with one large tensor: two
/// more leave (departing_sender()), one is filled, and one is copied out.
/// Pinned memory can't be swapped out, so it has a limit; what finds no slot
/// goes by the ring.
std::size_t slots_to_pin(std::size_t capacity, std::size_t largest) {
  constexpr std::size_t kBeside = 4;
  constexpr std::size_t kMostPinned = std::size_t{512} << 20;  // bytes
  const std::size_t wanted =
      std::min<std::size_t>(capacity, kMaxSlots - kBeside) + kBeside;
  return std::min(wanted, std::max<std::size_t>(2, kMostPinned / largest));
}

}  // namespace

GpuLinks::GpuLinks(const Experiment& experiment, int seat,
                   const c10::Device& device)
    : seat_(seat),
      name_(experiment.seat_names().of(seat)),
      where_(device),
      wants_ipc_(experiment.cuda_ipc) {
  if (where_.is_cpu()) return;
  below_ = boundary_to(experiment, seat_ - 1);
  above_ = boundary_to(experiment, seat_ + 1);
  if (wants_ipc_ && (below_.may_ask || above_.may_ask) && has_cuda_ipc(where_))
    device_ = cuda_ipc_device(where_);
}

GpuLinks::Boundary GpuLinks::boundary_to(const Experiment& experiment,
                                         int neighbour) const {
  Boundary boundary;
  if (!is_neighbour_on_gpu(experiment, seat_, neighbour)) return boundary;
  boundary.neighbour = experiment.seat_names().of(neighbour);
  boundary.traffic->why_host =
      why_config_forbids_ipc(experiment, seat_, neighbour);
  boundary.may_ask = boundary.traffic->why_host.empty();
  if (boundary.may_ask && can_register_memory(where_))
    boundary.largest = bytes_between(experiment, seat_, neighbour);
  return boundary;
}

void GpuLinks::ask_for(const Capacity& below, const Capacity& above,
                       RendezvousOptions& options) {
  patience_ = options.deadline;
  if (where_.is_cpu()) return;
  buffers_ = pinned_buffers(where_, std::move(options.buffers));
  options.buffers = buffers_;
  if (device_)
    options.shared_memory =
        with_parcels(options.shared_memory, std::max(below.down, above.up));
  ask_for_slots(below.down, below.up, below_, options.shared_memory);
  ask_for_slots(above.up, above.down, above_, options.shared_memory);
  slots_ = options.shared_memory.slots;
}

/// They cost addresses only until pin() takes their memory, which it doesn't
/// where tensors go by CUDA IPC.
void GpuLinks::ask_for_slots(std::size_t sent, std::size_t taken,
                             Boundary& boundary, SharedMemoryOptions& options) {
  if (boundary.largest <= kSmallCopy ||
      boundary.largest > kMaxAreaBytes / kMaxSlots)
    return;
  boundary.pinned_sent = slots_to_pin(sent, boundary.largest);
  boundary.pinned_taken = slots_to_pin(taken, boundary.largest);
  options.slots = std::max(options.slots, boundary.pinned_sent);
  options.slot_bytes = std::max(options.slot_bytes, boundary.largest);
  options.slots_on_demand = true;
}

void GpuLinks::agree(const ChainLinks& links) {
  // In the order of the chain: so no circle of workers waits for each other.
  if (below_.may_ask) agree(links.below, links.below_over, below_);
  if (above_.may_ask) agree(links.above, links.above_over, above_);
}

/// With memory for each boundary: both neighbours may be in one process, which
/// can't open the same twice.
IpcHello GpuLinks::hello() const {
  IpcHello mine{.boot = boot_id()};
  if (!wants_ipc_)
    mine.refusal = "cuda_ipc = false";
  else if (!device_)
    mine.refusal = fmt::format("{} has no CUDA IPC", name_);
  else
    offer_memory(mine);
  return mine;
}

void GpuLinks::offer_memory(IpcHello& mine) const {
  std::byte* const memory = device_->allocate(1);
  if (memory == nullptr) {
    mine.refusal =
        fmt::format("the GPU of {} has no memory left for CUDA IPC", name_);
    return;
  }
  try {
    mine.device = device_->id();
    mine.memory = device_->handle_of_memory(memory);
  } catch (const InternalError& error) {  // as on machines that lack it
    mine.refusal = fmt::format("{}: {}", name_, error.what());
  }
}

void GpuLinks::agree(const Link& link, const std::string& over,
                     Boundary& boundary) const {
  if (over != kSharedMemory) {  // nor does the neighbour ask
    boundary.traffic->why_host = "they are on two hosts";
    return;
  }
  const IpcAgreement agreed = greet_over(link, hello(), device_.get());
  boundary.peer = agreed.peer;
  boundary.traffic->why_host = agreed.why_not;
  if (!agreed.peer) {
    say(boundary, agreed.why_not);
    return pin(link, boundary);
  }
  boundary.slots = slots_of(*link.sender);
  boundary.traffic->tell = [this, &boundary](const std::string& why) {
    say(boundary, why);
  };
}

/// The slots in which tensors go through the host, so that the GPU copies into
/// them and out of them. Where CUDA refuses it the host copies once more.
void GpuLinks::pin(const Link& link, Boundary& boundary) const {
  if (boundary.pinned_sent == 0) return;
  const PinMemory pin = [this](std::span<std::byte> memory, std::string& why) {
    return registered_memory(where_, memory, why);
  };
  std::string why = pin_slots(*link.sender, boundary.pinned_sent, pin);
  if (why.empty())
    boundary.pinned = free_slots_of(*link.sender, boundary.pinned_sent);
  const std::string why_taken =
      pin_slots(*link.receiver, boundary.pinned_taken, pin);
  if (!why_taken.empty()) boundary.unpinned = memory_of_slots(*link.receiver);
  if (why.empty()) why = why_taken;
  if (why.empty()) return;
  boundary.traffic->why_host += "; " + why;
  say("sluice: {}: the host copies tensors to or from {}: {}\n", name_,
      boundary.neighbour, why);
}

/// One line, unless the user has asked for it.
void GpuLinks::say(const Boundary& boundary, const std::string& why) const {
  if (!wants_ipc_) return;
  say("sluice: {}: tensors go to {} through the host: {}\n", name_,
      boundary.neighbour, why);
}

Link GpuLinks::departing(Link link) const {
  if (!where_.is_cpu() && link.sender)
    link.sender = departing_sender(std::move(link.sender), patience_);
  return link;
}

ChainLinks GpuLinks::around(ChainLinks links) const {
  if (where_.is_cpu()) return links;
  links.below = around(std::move(links.below), below_);
  links.above = around(std::move(links.above), above_);
  return links;
}

Link GpuLinks::around(Link link, const Boundary& boundary) const {
  if (!link.sender) return link;  // no neighbour
  link.sender =
      staged_sender(std::move(link.sender), boundary.traffic, boundary.pinned);
  if (!boundary.unpinned.empty())
    link.receiver =
        out_of_slots(std::move(link.receiver), boundary.unpinned, buffers_);
  if (!boundary.peer) return link;
  link.sender = ipc_sender(std::move(link.sender), boundary.slots, slots_,
                           device_, boundary.traffic);
  link.receiver =
      ipc_receiver(std::move(link.receiver), device_, *boundary.peer);
  return link;
}

void GpuLinks::describe(records::Block& block) const {
  if (where_.is_cpu()) return;
  block.up_by_ipc = above_.traffic->by_ipc;
  block.up_through_host = above_.traffic->through_host;
  block.down_by_ipc = below_.traffic->by_ipc;
  block.down_through_host = below_.traffic->through_host;
  if (const std::string& why = above_.traffic->why_host; !why.empty())
    block.up_why_host = why;
  if (const std::string& why = below_.traffic->why_host; !why.empty())
    block.down_why_host = why;
}

}  // namespace sluice
