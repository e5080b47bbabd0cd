#include "experiments/runs/seats/gpu_links.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "experiments/runs/seats/mps.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/files/lock_holder.h"
#include "lib/base/files/user_text.h"
#include "lib/base/messages/departing_sender.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/tensors/gpu/cuda_ipc.h"
#include "lib/tensors/gpu/pinned_buffers.h"
#include "lib/tensors/gpu/registered_memory.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "lib/tensors/gpu/staging.h"
#include "transport/shared/ipc_link.h"
#include "transport/shared/shared_area.h"
#include "transport/shared/shared_memory.h"

namespace sluice {
namespace {

/// The transport that can carry parcels of CUDA IPC.
constexpr std::string_view kSharedMemory = "shared_memory";

/// The key that keeps tensors from going from one seat to the other by CUDA
/// IPC; "" where none does.
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

/// Bytes of the largest message that trains between two neighbours.
std::size_t bytes_between(const Experiment& experiment, int seat, int other) {
  const SeatNames names = experiment.seat_names();
  const MessageBytes* const bytes =
      find_by_block(experiment.costs.bytes,
                    std::min(names.block_of(seat), names.block_of(other)));
  if (bytes == nullptr) return 0;
  return static_cast<std::size_t>(std::max(bytes->activation, bytes->gradient));
}

/// Bytes of the largest message that two replicas of the seat's block exchange
/// in training.
std::size_t bytes_exchanged(const Experiment& experiment, int seat) {
  const double* const bytes = find_by_block(
      experiment.costs.exchange_bytes, experiment.seat_names().block_of(seat));
  return bytes == nullptr ? 0 : static_cast<std::size_t>(*bytes);
}

/// Messages that the link holds from the seat to its peer.
std::size_t sent_capacity(const PeerLink& link, int seat) {
  return static_cast<int>(link.peer) > seat ? link.capacity.up
                                            : link.capacity.down;
}
std::size_t taken_capacity(const PeerLink& link, int seat) {
  return static_cast<int>(link.peer) > seat ? link.capacity.down
                                            : link.capacity.up;
}

/// Number of pinned slots for a channel that holds so many messages, each with
/// one large tensor: two more leave (departing_sender()), one is filled, and
/// one is copied out. Pinned memory can't be swapped out, so it has a limit;
/// what finds no slot goes by the ring.
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
    : experiment_(experiment),
      seat_(seat),
      name_(experiment.seat_names().of(seat)),
      where_(device),
      wants_ipc_(experiment.cuda_ipc) {}

bool GpuLinks::is_replica(int seat) const {
  const SeatNames names = experiment_.seat_names();
  return names.block_of(seat) == names.block_of(seat_);
}

GpuLinks::Peer GpuLinks::peer_at(int seat) const {
  const SeatNames names = experiment_.seat_names();
  Peer peer;
  // Replicas meet over their links before NCCL sums, on the host.
  if (!is_on_gpu(experiment_, names.block_of(seat)) ||
      (is_replica(seat) && experiment_.replicas.uses_nccl()))
    return peer;
  peer.name = names.of(seat);
  peer.traffic->why_host = why_config_forbids_ipc(experiment_, seat_, seat);
  peer.may_ask = peer.traffic->why_host.empty();
  if (peer.may_ask && can_register_memory(where_))
    peer.largest = is_replica(seat) ? bytes_exchanged(experiment_, seat_)
                                    : bytes_between(experiment_, seat_, seat);
  return peer;
}

void GpuLinks::ask_for(const std::vector<PeerLink>& peers,
                       RendezvousOptions& options) {
  patience_ = options.deadline;
  if (where_.is_cpu()) return;
  buffers_ = pinned_buffers(where_, std::move(options.buffers));
  options.buffers = buffers_;
  std::size_t most = 0;  // messages of a link that may go by CUDA IPC
  for (const PeerLink& link : peers) {
    const auto seat = static_cast<int>(link.peer);
    peers_[seat] = peer_at(seat);
    if (peers_[seat].may_ask) most = std::max(most, sent_capacity(link, seat_));
  }
  if (wants_ipc_ && most > 0 && has_cuda_ipc(where_)) {
    device_ = cuda_ipc_device(where_);
    options.shared_memory = with_parcels(options.shared_memory, most);
  }
  for (const PeerLink& link : peers)
    ask_for_slots(sent_capacity(link, seat_), taken_capacity(link, seat_),
                  peers_.at(static_cast<int>(link.peer)),
                  options.shared_memory);
  slots_ = options.shared_memory.slots;
}

/// Asks for slots. They cost only addresses until pin() takes their memory,
/// which it doesn't where tensors go by CUDA IPC.
void GpuLinks::ask_for_slots(std::size_t sent, std::size_t taken, Peer& peer,
                             SharedMemoryOptions& options) {
  if (peer.largest <= kSmallCopy || peer.largest > kMaxAreaBytes / kMaxSlots)
    return;
  peer.pinned_sent = slots_to_pin(sent, peer.largest);
  peer.pinned_taken = slots_to_pin(taken, peer.largest);
  options.slots = std::max(options.slots, peer.pinned_sent);
  options.slot_bytes = std::max(options.slot_bytes, peer.largest);
  options.slots_on_demand = true;
}

/// Agrees with peers in the order of seats, so that no circle of workers waits
/// for each other: the pair of the lowest numbers can always go on.
void GpuLinks::agree(const JoinedLinks& joined) {
  for (auto& [seat, peer] : peers_) {
    if (!peer.may_ask) continue;
    const auto number = static_cast<std::uint32_t>(seat);
    agree(joined.peers.at(number), joined.transports.at(number), peer);
  }
}

/// With memory for each link: two peers may be in one process, which
/// can't open the same twice.
IpcHello GpuLinks::hello(const Peer& peer) const {
  IpcHello mine{.boot = boot_id()};
  // Measured on an H100: each message by CUDA IPC costs a switch of contexts
  // then, and pinned slots are 1.8 times as fast.
  if (peer.pinned_sent > 0 && !mps_is_running())
    mine.same_gpu_refusal =
        "two processes take turns on one GPU: nvidia-cuda-mps-control -d, "
        "started before the run, lets them compute at the same time";
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
                     Peer& peer) const {
  if (over != kSharedMemory) {  // nor does the peer ask
    peer.traffic->why_host = "they are on two hosts";
    return;
  }
  const IpcAgreement agreed = greet_over(link, hello(peer), device_.get());
  peer.peer = agreed.peer;
  peer.traffic->why_host = agreed.why_not;
  if (!agreed.peer) {
    say(peer, agreed.why_not);
    return pin(link, peer);
  }
  peer.slots = slots_of(*link.sender);
  peer.traffic->tell = [this, &peer](const std::string& why) {
    say(peer, why);
  };
}

/// The slots in which tensors go through the host, so that the GPU copies into
/// them and out of them. Where CUDA refuses it the host copies once more.
void GpuLinks::pin(const Link& link, Peer& peer) const {
  if (peer.pinned_sent == 0) return;
  const PinMemory pin = [this](std::span<std::byte> memory, std::string& why) {
    return registered_memory(where_, memory, why);
  };
  std::string why = pin_slots(*link.sender, peer.pinned_sent, pin);
  if (why.empty()) peer.pinned = free_slots_of(*link.sender, peer.pinned_sent);
  const std::string why_taken =
      pin_slots(*link.receiver, peer.pinned_taken, pin);
  if (!why_taken.empty()) peer.unpinned = memory_of_slots(*link.receiver);
  if (why.empty()) why = why_taken;
  if (why.empty()) return;
  peer.traffic->why_host += "; " + why;
  sluice::say("sluice: {}: the host copies tensors to or from {}: {}\n", name_,
              peer.name, why);
}

/// Says on one line why tensors go by the host, unless the user has asked for
/// that.
void GpuLinks::say(const Peer& peer, const std::string& why) const {
  if (!wants_ipc_) return;
  sluice::say("sluice: {}: tensors go to {} through the host: {}\n", name_,
              peer.name, why);
}

Link GpuLinks::departing(Link link) const {
  if (!where_.is_cpu() && link.sender)
    link.sender = departing_sender(std::move(link.sender), patience_);
  return link;
}

Link GpuLinks::around(Link link, int peer) const {
  if (where_.is_cpu() || !link.sender) return link;
  const Peer& there = peers_.at(peer);
  link.sender =
      staged_sender(std::move(link.sender), there.traffic, there.pinned);
  if (!there.unpinned.empty())
    link.receiver =
        out_of_slots(std::move(link.receiver), there.unpinned, buffers_);
  if (!there.peer) return link;
  link.sender = ipc_sender(std::move(link.sender), there.slots, slots_, device_,
                           there.traffic);
  link.receiver = ipc_receiver(std::move(link.receiver), device_, *there.peer);
  return link;
}

namespace {

/// Fields of the block's record about one direction of a link.
struct TrafficFields {
  std::optional<std::int64_t>& by_ipc;
  std::optional<std::int64_t>& through_host;
  std::optional<std::string>& why_host;
};

void add_to(const TrafficFields& fields, const DeviceTraffic& traffic) {
  fields.by_ipc = fields.by_ipc.value_or(0) + traffic.by_ipc;
  fields.through_host = fields.through_host.value_or(0) + traffic.through_host;
  if (!traffic.why_host.empty()) fields.why_host = traffic.why_host;
}

}  // namespace

void GpuLinks::describe(records::Block& block) const {
  for (const auto& [seat, peer] : peers_) {
    if (is_replica(seat))
      add_to({block.replicas_by_ipc, block.replicas_through_host,
              block.replicas_why_host},
             *peer.traffic);
    else if (seat > seat_)
      add_to({block.up_by_ipc, block.up_through_host, block.up_why_host},
             *peer.traffic);
    else
      add_to({block.down_by_ipc, block.down_through_host, block.down_why_host},
             *peer.traffic);
  }
}

}  // namespace sluice
