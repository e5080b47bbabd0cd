#include "experiments/runs/seats/seat_links.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "experiments/runs/seats/meeting_numbers.h"
#include "experiments/runs/seats/neighbour_links.h"
#include "experiments/runs/seats/ways.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/files/user_text.h"
#include "lib/engines/control.h"
#include "lib/replicas/groups/links.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/neighbours.h"

namespace sluice {
namespace {

/// Time in which a replica that joins a run must have made its links, once its
/// workers have called: replica 1 waits for it.
constexpr std::chrono::seconds kTimeToJoin(10);

const BlockPlan& plan_of(const Experiment& experiment, int seat) {
  return by_block(experiment.plans.front().blocks, seat);
}

/// The seats on one side of a seat.
std::vector<int> neighbours_of(const Experiment& experiment, int seat,
                               Direction side) {
  return neighbours_of(experiment.plans.front(), seat, side);
}

/// The messages that the link with a neighbour holds.
Capacity capacity_to(const Experiment& experiment, int seat, Direction side,
                     int neighbour) {
  return capacity_between(experiment.plans.front(), experiment.capacities,
                          side == Direction::above ? SeatPair{seat, neighbour}
                                                   : SeatPair{neighbour, seat});
}

/// Capacity of the link with the first neighbour on that side; none at the ends
/// of a chain.
Capacity capacity_of(const Experiment& experiment, int seat, Direction side) {
  const std::vector<int> seats = neighbours_of(experiment, seat, side);
  if (seats.empty()) return {};
  return capacity_to(experiment, seat, side, seats.front());
}

/// The seats of the other replicas of its block; replica r at index r-1.
std::vector<int> replicas_of(const Experiment& experiment, int seat) {
  std::vector<int> seats;
  for (const BlockPlan& plan : experiment.plans.front().blocks)
    if (plan.block == plan_of(experiment, seat).block)
      seats.push_back(plan.seat());
  return seats;
}

/// Whether a seat has a link with another replica of its block from the start.
bool meets(const Experiment& experiment, int seat, int peer) {
  if (peer == seat || peer > experiment.started_seats()) return false;
  const BlockPlan& mine = plan_of(experiment, seat);
  return !mine.exchange.served ||
         has_centre(mine) != has_centre(plan_of(experiment, peer));
}

/// The neighbours of a seat, and the other replicas of its block that it has
/// links with.
std::vector<PeerLink> peers_of(const Experiment& experiment, int seat) {
  std::vector<PeerLink> peers;
  const auto add = [&](int peer, const Capacity& capacity) {
    peers.push_back({static_cast<std::uint32_t>(peer), capacity});
  };
  for (const Direction side : {Direction::below, Direction::above})
    for (const int peer : neighbours_of(experiment, seat, side)) {
      const Capacity capacity = capacity_to(experiment, seat, side, peer);
      // On a link, up is from the lower number to the higher one.
      const bool is_up = (side == Direction::above) == (seat < peer);
      add(peer, is_up ? capacity : Capacity{capacity.down, capacity.up});
    }
  if (experiment.replicas.uses_mpi()) return peers;
  for (const int peer : replicas_of(experiment, seat))
    if (meets(experiment, seat, peer))
      add(peer, {kExchangeCapacity, kExchangeCapacity});
  return peers;
}

/// The link to a peer; one without ends where there is no such peer.
Link take_link(JoinedLinks& joined, int peer) {
  const auto found = joined.peers.find(static_cast<std::uint32_t>(peer));
  return found == joined.peers.end() ? Link() : std::move(found->second);
}

/// Links on a side where the seat has several, with the injector's faults.
std::map<int, Link> take_links(JoinedLinks& joined,
                               const Experiment& experiment, int seat,
                               Direction side, FaultInjector& injector) {
  std::map<int, Link> links;
  for (const int peer : neighbours_of(experiment, seat, side)) {
    const Capacity capacity = capacity_to(experiment, seat, side, peer);
    links[peer] = injector.with_faults(
        take_link(joined, peer), peer,
        side == Direction::above ? capacity.up : capacity.down);
  }
  return links;
}

/// Whether the launcher finds a worker that hangs, and ends it. One on another
/// host may be cut off from it.
bool is_supervised(const WorkerArguments& arguments) {
  const bool is_far = arguments.joins > 0 && !is_of_one_host(arguments.address);
  return arguments.parent != 0 && !is_far;
}

/// Joins where a replica joins the run: the newcomer itself, or replica 1.
JoinedLinks join_newcomer(IoThread& io, const std::string& address,
                          const MeetingNumbers& numbers, int seat,
                          const std::vector<PeerLink>& peers,
                          RendezvousOptions options) {
  numbers.set_in(options);
  std::vector<PeerLink> numbered = peers;
  for (PeerLink& link : numbered)
    link.peer = numbers.of(static_cast<int>(link.peer));
  JoinedLinks found =
      join(io, address, numbers.of(seat), numbered, std::move(options));
  JoinedLinks joined;
  joined.control = std::move(found.control);
  joined.run = std::move(found.run);
  for (auto& [number, link] : found.peers) {
    const auto peer = static_cast<std::uint32_t>(numbers.seat_of(number));
    joined.peers.emplace(peer, std::move(link));
    joined.transports.emplace(peer, found.transports.at(number));
  }
  return joined;
}

}  // namespace

std::optional<Link> link_to_newcomer(IoThread& io, const Experiment& experiment,
                                     int seat, const Newcomer& newcomer,
                                     RendezvousOptions options) {
  // Others wait for this seat meanwhile, and are not to give it up.
  options.patience = std::min<Deadline>(kTimeToJoin, options.deadline / 2);
  choose_transports(experiment, is_of_one_host(newcomer.address), options);
  const SeatNames names = experiment.seat_names();
  const int peer = (newcomer.replica - 1) * names.depth + names.block_of(seat);
  try {
    JoinedLinks joined = join_newcomer(
        io, newcomer.address, MeetingNumbers(names, newcomer.replica), seat,
        {{static_cast<std::uint32_t>(peer),
          {kExchangeCapacity, kExchangeCapacity}}},
        std::move(options));
    return take_link(joined, peer);
  } catch (const Error& error) {
    say("sluice: {}: replica {} wanted to join, and didn't come: {}\n",
        names.of(seat), newcomer.replica, text_of(error));
    return std::nullopt;
  }
}

SeatLinks join_others(IoThread& io, const Experiment& experiment,
                      const WorkerArguments& arguments,
                      RendezvousOptions options, FaultInjector& injector,
                      GpuLinks& gpu) {
  if (arguments.parent != 0) options.patience = kSupervisedDeadline;
  if (is_supervised(arguments)) options.deadline = kSupervisedDeadline;
  if (!arguments.faults.empty())
    options.damage = [&injector](std::uint32_t to, const Message& message,
                                 std::span<std::byte> frame) {
      injector.damage(static_cast<int>(to), message, frame);
    };
  const int seat = arguments.block;
  const std::vector<PeerLink> peers = peers_of(experiment, seat);
  gpu.ask_for(peers, options);
  const SeatNames names = experiment.seat_names();
  JoinedLinks joined =
      arguments.joins > 0
          ? join_newcomer(io, arguments.address,
                          MeetingNumbers(names, names.replica_of(seat)), seat,
                          peers, std::move(options))
          : join(io, arguments.address, static_cast<std::uint32_t>(seat), peers,
                 std::move(options));
  gpu.agree(joined);
  SeatLinks links;
  links.control = std::move(joined.control);
  links.run = std::move(joined.run);
  const std::vector<int> lower =
      neighbours_of(experiment, seat, Direction::below);
  const std::vector<int> upper =
      neighbours_of(experiment, seat, Direction::above);
  if (lower.size() == 1)
    links.below = gpu.departing(injector.with_faults(
        take_link(joined, lower.front()), lower.front(),
        capacity_of(experiment, seat, Direction::below).down));
  else
    links.all_below =
        take_links(joined, experiment, seat, Direction::below, injector);
  if (upper.size() == 1)
    links.above = gpu.departing(injector.with_faults(
        take_link(joined, upper.front()), upper.front(),
        capacity_of(experiment, seat, Direction::above).up));
  else
    links.all_above =
        take_links(joined, experiment, seat, Direction::above, injector);
  if (plan_of(experiment, seat).exchange.members > 1 &&
      !experiment.replicas.uses_mpi())
    for (const int peer : replicas_of(experiment, seat))
      links.replicas.push_back(gpu.departing(take_link(joined, peer)));
  return links;
}

SeatLinks around_gpu(SeatLinks links, const GpuLinks& gpu,
                     const Experiment& experiment, int seat) {
  const auto around = [&](Link& link, const std::vector<int>& peers) {
    if (peers.size() == 1) link = gpu.around(std::move(link), peers.front());
  };
  around(links.below, neighbours_of(experiment, seat, Direction::below));
  around(links.above, neighbours_of(experiment, seat, Direction::above));
  const std::vector<int> replicas = replicas_of(experiment, seat);
  for (std::size_t r = 0; r < links.replicas.size(); ++r)
    links.replicas[r] = gpu.around(std::move(links.replicas[r]), replicas[r]);
  return links;
}

namespace {

/// The link that the seat has on one side, of its one link there or of all.
Link shown_side(Link one, std::map<int, Link> all, Heartbeat& heartbeat,
                const Experiment& experiment, int seat, Direction side) {
  const std::vector<int> seats = neighbours_of(experiment, seat, side);
  if (seats.empty()) return {};
  if (seats.size() == 1)
    return with_waits_shown(std::move(one), heartbeat, seats.front());
  for (auto& [neighbour, link] : all)
    link = with_waits_shown(std::move(link), heartbeat, neighbour);
  return link_to_neighbours(experiment.plans.front(), seat, side,
                            std::move(all));
}

}  // namespace

SeatLinks with_waits_shown(SeatLinks links, Heartbeat& heartbeat,
                           const Experiment& experiment, int seat,
                           std::chrono::milliseconds period) {
  links.control.sender =
      with_heartbeat(std::move(links.control.sender), heartbeat, period);
  links.control =
      with_waits_shown(std::move(links.control), heartbeat, kLauncher);
  links.below = shown_side(std::move(links.below), std::move(links.all_below),
                           heartbeat, experiment, seat, Direction::below);
  links.above = shown_side(std::move(links.above), std::move(links.all_above),
                           heartbeat, experiment, seat, Direction::above);
  // The centre waits, not the seat beside it.
  const BlockPlan& plan = plan_of(experiment, seat);
  if (has_centre(plan)) return links;
  const std::vector<int> peers = replicas_of(experiment, seat);
  for (std::size_t r = 0; r < links.replicas.size(); ++r)
    links.replicas[r] =
        with_waits_shown(std::move(links.replicas[r]), heartbeat, peers[r]);
  return links;
}

}  // namespace sluice
