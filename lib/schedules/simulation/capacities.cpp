#include "lib/schedules/simulation/capacities.h"

#include <algorithm>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {

Grant sample_grant(const RunPlan& plan, std::int64_t steady_turns) {
  std::int64_t longest = 0;
  for (const BlockPlan& block : plan.blocks)
    longest = std::max(longest, turns_in_flight(block));
  Grant grant;
  grant.end_turn = longest + steady_turns;
  grant.drain = true;
  grant.evaluation_batches = 2;
  grant.checkpoint = true;
  grant.finish = true;
  return grant;
}

namespace {

constexpr std::int64_t kTurnsAfterEvaluation = 4;

/// A simulation of the sample run, before its first action.
Simulation sample(const RunPlan& plan, const Grant& grant,
                  const std::vector<Capacity>& capacities) {
  Simulation simulation({plan}, {}, capacities);
  // An evaluation in mid-run finds gradients under way.
  Grant first = grant;
  first.end_turn -= kTurnsAfterEvaluation;
  first.drain = false;
  Grant second = grant;
  second.first_turn = first.end_turn;
  for (const BlockPlan& block : plan.blocks)
    for (const Grant& each : {first, second})
      simulation.give(block.seat(), each);
  return simulation;
}

/// Runs the simulation to its end, or to where it waits for itself.
void run(Simulation& simulation) {
  while (simulation.next()) {
  }
}

std::size_t& side(std::vector<Capacity>& capacities, int link, bool is_up) {
  Capacity& capacity = by_block(capacities, link);
  return is_up ? capacity.up : capacity.down;
}

/// Every channel that was full when the sample could not go on holds one more,
/// until it comes to its end. What has been done is done with more room too.
std::vector<Capacity> widened(const RunPlan& plan, const Grant& grant) {
  std::vector<Capacity> capacities(links_of(plan).size());
  Simulation simulation = sample(plan, grant, capacities);
  for (run(simulation); !simulation.finished(); run(simulation)) {
    const auto full = simulation.full_channels();
    if (full.empty())
      throw UserError("this schedule waits for itself: {}", simulation.stuck());
    for (const auto& [link, is_up] : full) {
      ++side(capacities, link, is_up);
      simulation.widen(link, is_up);
    }
  }
  return capacities;
}

/// Sets a channel to its least capacity, with the others as they are. A sample
/// that can't go on for want of room there couldn't in any order of its
/// actions: so the channel holds one more, until the sample is done.
void narrow(const RunPlan& plan, const Grant& grant, int link, bool is_up,
            std::vector<Capacity>& capacities) {
  std::size_t& capacity = side(capacities, link, is_up);
  const std::size_t enough = std::exchange(capacity, 1);
  if (enough == 1) return;
  Simulation simulation = sample(plan, grant, capacities);
  for (run(simulation); !simulation.finished() && capacity < enough;
       run(simulation)) {
    ++capacity;
    simulation.widen(link, is_up);
  }
}

/// A block that runs free never waits for room to send a gradient: so those
/// below it can't keep it from what they wait for. Nor does it for room to send
/// activations while it may have more batches in flight.
std::vector<Capacity> free_capacities(const RunPlan& plan, std::size_t slack) {
  RunPlan lockstep = plan;
  for (BlockPlan& block : lockstep.blocks) {
    block.free.in_flight = 0;
    block.free.inbox_below = {};
    block.free.inbox_above = {};
    block.free.has_gaps = false;
  }
  std::vector<Capacity> capacities = capacities_of(lockstep, slack);
  for (std::size_t k = 0; k < capacities.size(); ++k) {
    const auto most = static_cast<std::size_t>(plan.blocks[k].free.in_flight);
    capacities[k] = {std::max(capacities[k].up, most),
                     std::max(capacities[k].down, most)};
    // As little room as can be: what has reached the channel is not dropped.
    if (plan.blocks[k].free.inbox_above.drops()) capacities[k].up = 1;
  }
  return capacities;
}

/// Replicas wait for each other where they exchange, all at the same place of
/// their programs: channels of one suffice for all, with room for a norm that
/// then comes down by itself. Between the last block of one and the first of
/// the next nothing is sent.
std::vector<Capacity> capacities_of_replicas(const RunPlan& plan,
                                             std::size_t slack) {
  std::vector<Capacity> one = capacities_of(first_replica(plan), slack);
  if (is_norm_of_exchanged(plan, 1))
    for (Capacity& capacity : one) ++capacity.down;
  std::vector<Capacity> all;
  for (int replica = 1; replica <= plan.replicas; ++replica) {
    if (replica > 1) all.emplace_back();
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

}  // namespace

std::vector<Capacity> capacities_of(const RunPlan& plan, std::size_t slack) {
  if (plan.replicas > 1 && !plan.is_uneven())
    return capacities_of_replicas(plan, slack);
  if (runs_free(plan)) return free_capacities(plan, slack);
  const Grant grant = sample_grant(plan, 8);
  std::vector<Capacity> capacities = widened(plan, grant);
  // Widened channels need not all have been the reason: each is narrowed again
  // as far as it goes.
  for (int link = 1; link <= std::ssize(capacities); ++link)
    for (const bool is_up : {true, false})
      narrow(plan, grant, link, is_up, capacities);
  for (Capacity& capacity : capacities) {
    capacity.up += slack;
    capacity.down += slack;
  }
  return capacities;
}

std::vector<Capacity> capacities_of(const Plans& plans, std::size_t slack) {
  std::vector<Capacity> all = capacities_of(plans.at(0), slack);
  for (const RunPlan& plan : plans) {
    const std::vector<Capacity> one = capacities_of(plan, slack);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = {std::max(all[i].up, one[i].up),
                std::max(all[i].down, one[i].down)};
  }
  return all;
}

}  // namespace sluice
