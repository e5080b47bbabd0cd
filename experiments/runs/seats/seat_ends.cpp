#include "experiments/runs/seats/seat_ends.h"

#include <chrono>
#include <cstddef>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/seats/centres.h"
#include "experiments/runs/seats/devices.h"
#include "experiments/runs/seats/neighbour_links.h"
#include "lib/base/by_block.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/engines/control.h"
#include "lib/replicas/centre/centre_host.h"
#include "lib/replicas/groups/memory.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/tensors/gpu/staged_sender.h"

namespace sluice {
namespace {

constexpr Deadline kPatienceOfReplay = std::chrono::minutes(1);

/// What a GPU sends to a CPU is copied as it is sent: later the copy would be
/// behind what the GPU has got to do by then. Between GPUs it stays there.
void stage_for_cpu(const Experiment& experiment, int from, int to, Link& link) {
  if (is_on_gpu(experiment, from) && !is_on_gpu(experiment, to))
    link.sender = staged_sender(std::move(link.sender));
}

/// The ends of the link between two seats.
std::pair<Link, Link> link_for(const Experiment& experiment,
                               const SeatPair& seats, Capacity capacity) {
  const std::vector<BlockPlan>& plans = experiment.plans.front().blocks;
  // Messages into a replay buffer arrive in virtual time, and a dropped one
  // has been sent all the same: the seat fetches them later, so the channel
  // must hold all.
  const bool waits_for_its_time =
      !by_block(plans, seats.upper).free.inbox_below.is_plain();
  if (waits_for_its_time && experiment.engine == Engine::virtual_time)
    capacity.up = std::numeric_limits<std::size_t>::max();
  auto [below, above] =
      memory_link(capacity.up, capacity.down,
                  std::chrono::seconds(experiment.timeout_seconds));
  const int block = by_block(plans, seats.lower).block;
  stage_for_cpu(experiment, block, block + 1, below);
  stage_for_cpu(experiment, block + 1, block, above);
  return {std::move(below), std::move(above)};
}

void add_groups(const Experiment& experiment, std::vector<Ends>& ends) {
  const RunPlan& plan = experiment.plans.front();
  for (int block = 1; block <= experiment.blocks(); ++block) {
    const int replicas = replicas_of(plan, block);
    if (replicas == 1) continue;
    auto group =
        memory_group(replicas, std::chrono::seconds(experiment.timeout_seconds),
                     fmt::format("block {}", block));
    for (int replica = 1; replica <= replicas; ++replica)
      by_block(ends, seat_of(plan, block, replica)).replicas.group =
          std::move(by_block(group, replica));
  }
}

/// Adds links between each replica and its block's centres, which are charged
/// to the replicas beside which they are. They have no limit on how far apart
/// replicas may be.
void add_centres(const Experiment& experiment,
                 const std::optional<std::set<int>>& later,
                 std::vector<Ends>& ends) {
  const RunPlan& plan = experiment.plans.front();
  // No record can make its replay wait for ever.
  const Deadline patience = later ? kPatienceOfReplay : kSupervisedDeadline;
  std::vector<CentreWays::Links> ways(ends.size());
  for (const BlockPlan& host : plan.blocks) {
    if (!has_centre(host)) continue;
    auto& memory = by_block(ends, host.seat()).memory;
    memory = memory_of_seat(experiment, host.seat());
    CentreSetup setup = centre_setup(experiment, host.block, host.replica);
    setup.is_told = later.has_value();
    if (later) setup.absent = *later;
    for (auto& link : links_to_centre(
             setup, static_cast<int>(experiment.threads), patience, memory)) {
      if (!link) continue;
      const int seat = seat_of(plan, host.block, link->member());
      by_block(ways, seat)[host.replica] = std::move(link);
    }
  }
  for (int seat = 1; seat <= std::ssize(ends); ++seat)
    by_block(ends, seat).replicas.centres =
        std::make_unique<CentreWays>(std::move(by_block(ways, seat)));
}

}  // namespace

std::vector<Ends> memory_ends(const Experiment& experiment,
                              const std::optional<std::set<int>>& later) {
  const RunPlan& plan = experiment.plans.front();
  std::vector<std::map<int, Link>> below(plan.blocks.size());
  std::vector<std::map<int, Link>> above(plan.blocks.size());
  const std::vector<SeatPair> pairs = links_of(plan);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto [lower, upper] = pairs[i];
    if (by_block(plan.blocks, lower).block == experiment.blocks()) continue;
    auto [of_lower, of_upper] =
        link_for(experiment, pairs[i], experiment.capacities.at(i));
    by_block(above, lower)[upper] = std::move(of_lower);
    by_block(below, upper)[lower] = std::move(of_upper);
  }
  std::vector<Ends> ends(plan.blocks.size());
  for (int seat = 1; seat <= std::ssize(ends); ++seat) {
    Ends& its = by_block(ends, seat);
    its.below = link_to_neighbours(plan, seat, Direction::below,
                                   std::move(by_block(below, seat)));
    its.above = link_to_neighbours(plan, seat, Direction::above,
                                   std::move(by_block(above, seat)));
  }
  if (experiment.plans.front().blocks.front().exchange.served)
    add_centres(experiment, later, ends);
  else if (experiment.replicas.count > 1)
    add_groups(experiment, ends);
  return ends;
}

std::vector<NewcomerEnds> newcomer_ends(const Experiment& experiment,
                                        int replica) {
  const int depth = experiment.blocks();
  const int members = static_cast<int>(experiment.replicas.count);
  std::vector<NewcomerEnds> all(static_cast<std::size_t>(depth));
  for (int block = 1; block <= depth; ++block) {
    NewcomerEnds& mine = by_block(all, block);
    auto [of_replica, of_centre] =
        memory_link(kCentreCapacity, kCentreCapacity, kPatienceOfReplay);
    mine.centre = std::move(of_centre);
    mine.ends.replicas.centres = std::make_unique<CentreWays>(
        std::make_unique<CentreLink>(std::move(of_replica), replica, members,
                                     centre_setup(experiment, block, 1).name));
    if (block == depth) continue;
    const int seat = (replica - 1) * depth + block;
    std::tie(mine.ends.above, by_block(all, block + 1).ends.below) =
        link_for(experiment, {seat, seat + 1},
                 experiment.capacities.at(static_cast<std::size_t>(seat) - 1));
  }
  return all;
}

}  // namespace sluice
