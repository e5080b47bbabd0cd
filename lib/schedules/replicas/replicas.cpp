#include "lib/schedules/replicas/replicas.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {
namespace {

/// Checks that blocks with clocks of their own don't wait for sums and peers.
void check_free(const RunPlan& one, const ReplicaExchange& exchange) {
  if (!exchange.served)
    throw UserError(
        "with schedule = 'free' replicas come to a centre when they are ready: "
        "set replicas.policy = 'server', 'neighbours', 'all_reduce', "
        "'average', 'elastic' with one_by_one = true, or 'gossip' with pairs = "
        "true; those of another policy wait for each other: set schedule = "
        "'lockstep'");
  for (const BlockPlan& block : one.blocks)
    if (!block.free.has_plain_inboxes())
      throw UserError(
          "block {}: buffer and slow_consumer go with one replica: leave them "
          "out, or set replicas.count = 1",
          block.block);
}

/// Replicas keep what ends train by themselves alike as they keep weights.
void check_lessons(const BlockPlan& block, const ReplicaExchange& exchange) {
  if (!block.lower.learns && !block.forwards_data()) return;
  const int boundary = block.lower.learns ? block.block : block.block - 1;
  if (block.lower.learns && !block.lower.learns_by_steps)
    throw UserError(
        "boundary {}: its policy learns from what comes down, and not by "
        "gradients that replicas could sum: choose another policy, or set "
        "replicas.count = 1",
        boundary);
  if (exchange.served)
    throw UserError(
        "boundary {}: its synthesizer or input model learns from every batch, "
        "and the centre of replicas serves weights of blocks alone: set "
        "schedule = 'lockstep', or choose a policy without one",
        boundary);
  const bool is_by_each =
      exchange.what == ExchangedTensors::gradients && !exchange.graph.is_all();
  if (exchange.in_memory || is_by_each)
    throw UserError(
        "boundary {}: its synthesizer or input model would be another one in "
        "each replica: set replicas.policy = 'all_reduce' or one that "
        "exchanges weights, or choose a policy without one",
        boundary);
  if (exchange.what == ExchangedTensors::gradients &&
      block.micro_batches.count > 1)
    throw UserError(
        "boundary {}: replicas sum what its synthesizer or input model learns "
        "from each batch, and their turns may have different numbers of "
        "batches: set pipeline.micro_batches = 1, or choose a policy without "
        "one",
        boundary);
}

/// Checks that replicas may have as many batches as they come for.
void check_arrival(const RunPlan& one, const ReplicaExchange& exchange) {
  constexpr const char* kShares = "set replicas.deal = 'shares'";
  if (exchange.visits_partners)
    throw UserError(
        "replicas.deal = 'arrival' has a centre deal to all replicas, and "
        "meet_at = 'partner' has none: {}",
        kShares);
  if (!runs_free(one))
    throw UserError(
        "replicas.deal = 'arrival' is for replicas with clocks of their own, "
        "and in lockstep all have as many batches: set schedule = 'free', or "
        "{}",
        kShares);
  if (exchange.quorum.is_there() &&
      exchange.what == ExchangedTensors::gradients)
    throw UserError(
        "replicas.deal = 'arrival': with policy = 'all_reduce' replicas wait "
        "for each other's gradients of a turn, and so have as many batches: "
        "{}",
        kShares);
  if (std::any_of(one.blocks.begin(), one.blocks.end(),
                  [](const BlockPlan& block) { return block.accumulate > 1; }))
    throw UserError(
        "replicas.deal = 'arrival' counts each batch as an update: set "
        "accumulate = 1, or {}",
        kShares);
}

void check(const RunPlan& one, const ReplicaExchange& exchange) {
  SLUICE_CHECK(runs_free(one) || !exchange.served,
               "replicas in lockstep are served in their order");
  if (runs_free(one)) check_free(one, exchange);
  for (const BlockPlan& block : one.blocks) check_lessons(block, exchange);
}

}  // namespace

RunPlan with_replicas(const RunPlan& one, int replicas,
                      const ReplicaExchange& exchange, bool stagger,
                      Dealing dealing) {
  SLUICE_CHECK(one.replicas == 1, "replicas of {} replicas", one.replicas);
  if (replicas == 1) return one;
  check(one, exchange);
  check_graph(exchange.graph, replicas);
  if (dealing == Dealing::arrival) check_arrival(one, exchange);
  RunPlan all = one;
  all.replicas = replicas;
  all.blocks.clear();
  const int depth = one.depth();
  for (int replica = 1; replica <= replicas; ++replica) {
    for (BlockPlan block : one.blocks) {
      block.replica = replica;
      block.seats_before = (replica - 1) * depth;
      block.placement.first = (replica - 1) * executors_of(one);
      block.micro_batches.deals.replicas = replicas;
      block.micro_batches.replica = replica;
      block.micro_batches.by_arrival = dealing == Dealing::arrival;
      if (dealing == Dealing::arrival) block.free.has_gaps = block.block > 1;
      block.exchange = exchange;
      block.exchange.members = replicas;
      if (stagger)
        block.exchange.offset = (block.block - 1) * exchange.every / depth;
      block.exchange.offset += exchange.overlap;
      all.blocks.push_back(std::move(block));
    }
  }
  return all;
}

namespace {

/// Refuses what isn't made for batches that go to other replicas in each block.
void check_uneven(const RunPlan& one) {
  constexpr const char* kOneNumber =
      ", or one number of replicas for all blocks";
  if (one.model_norm)
    throw UserError(
        "clip.scope = 'model' adds up the norms of a replica's blocks, and "
        "with replicas.count as a list they aren't one for one: set clip.scope "
        "= 'block'{}",
        kOneNumber);
  for (const BlockPlan& block : one.blocks) {
    if (block.lower.learns || block.forwards_data())
      throw UserError(
          "block {}: a synthesizer or input model learns from one block what "
          "it is for in another, and with replicas.count as a list these have "
          "other batches: choose another boundary.policy{}",
          block.block, kOneNumber);
    if (block.free.in_flight > 0)
      throw UserError(
          "replicas.count as a list goes by turns, and with schedule = 'free' "
          "there are none: set schedule = 'lockstep'{}",
          kOneNumber);
    if (block.program != turns_of || block.micro_batches.count > 1)
      throw UserError(
          "replicas.count as a list has replicas share the batches of a turn, "
          "whole: set pipeline.order = 'turns' and pipeline.micro_batches = "
          "1{}",
          kOneNumber);
    if (block.weights.by_window || block.weights.of_entry ||
        (block.delay > 0 && block.weights.rebuilds))
      throw UserError(
          "block {}: weights = '{}' is about what several blocks do with one "
          "batch, which with replicas.count as a list are other replicas each "
          "time: set other weights{}",
          block.block, block.weights.view, kOneNumber);
    if (!block.visits.empty())
      throw UserError(
          "block {}: its backward visits a batch several times, and with "
          "replicas.count as a list once: choose another boundary.policy{}",
          block.block, kOneNumber);
  }
}

}  // namespace

RunPlan with_uneven_replicas(const RunPlan& one,
                             const std::vector<std::int64_t>& counts,
                             const ReplicaExchange& exchange) {
  SLUICE_CHECK(one.replicas == 1, "replicas of {} replicas", one.replicas);
  SLUICE_CHECK(std::ssize(counts) == one.depth(),
               "{} numbers of replicas for {} blocks", counts.size(),
               one.depth());
  SLUICE_CHECK(exchange.what == ExchangedTensors::gradients &&
                   exchange.graph.is_all() && !exchange.in_memory,
               "replicas that differ in number exchange more than gradients");
  check_uneven(one);
  check(one, exchange);
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  RunPlan all = one;
  all.replicas = static_cast<int>(most);
  all.blocks.clear();
  for (int replica = 1; replica <= all.replicas; ++replica) {
    for (BlockPlan block : one.blocks) {
      const std::int64_t members = by_block(counts, block.block);
      if (replica > members) continue;
      block.replica = replica;
      block.seats_before =
          static_cast<int>(all.blocks.size()) + 1 - block.block;
      block.placement.first = block.seats_before;
      block.micro_batches.deals.replicas = most;
      block.micro_batches.replica = replica;
      block.micro_batches.dealt = most;
      block.micro_batches.members = members;
      if (members > 1) block.exchange = exchange;
      block.exchange.members = static_cast<int>(members);
      all.blocks.push_back(std::move(block));
    }
  }
  return all;
}

RunPlan first_replica(const RunPlan& plan) {
  RunPlan one = plan;
  one.replicas = 1;
  one.blocks.resize(static_cast<std::size_t>(plan.depth()));
  for (BlockPlan& block : one.blocks) {
    block.exchange = {};
    block.micro_batches.deals = {};
    block.micro_batches.dealt = 1;
    block.micro_batches.by_arrival = false;
    block.micro_batches.members = 1;
  }
  return one;
}

bool survives_loss(const RunPlan& plan) {
  return plan.blocks.front().exchange.survives_loss();
}

bool may_wait_in_circle(const RunPlan& plan) {
  return plan.blocks.front().exchange.quorum.is_there() && plan.depth() > 1;
}

int SeatNames::seats() const {
  if (counts.empty()) return depth * replicas;
  return static_cast<int>(
      std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
}

/// Block and replica of a seat; a plan numbers seats replica by replica.
std::pair<int, int> SeatNames::place_of(int seat) const {
  if (counts.empty()) return {(seat - 1) % depth + 1, (seat - 1) / depth + 1};
  int left = seat;
  for (int replica = 1; replica <= replicas; ++replica)
    for (int block = 1; block <= depth; ++block)
      if (by_block(counts, block) >= replica && --left == 0)
        return {block, replica};
  return {depth, replicas};
}

std::string SeatNames::of(int seat) const {
  return replicas == 1 ? fmt::format("block {}", seat)
                       : fmt::format("block {} of replica {}", block_of(seat),
                                     replica_of(seat));
}

std::string SeatNames::short_of(int seat) const {
  return replicas == 1
             ? fmt::format("block {}", seat)
             : fmt::format("block {}.{}", block_of(seat), replica_of(seat));
}

SeatNames seat_names(const RunPlan& plan) {
  SeatNames names{plan.depth(), plan.replicas};
  if (plan.is_uneven())
    for (int block = 1; block <= names.depth; ++block)
      names.counts.push_back(replicas_of(plan, block));
  return names;
}

std::string name_of_seat(const RunPlan& plan, int seat) {
  return seat_names(plan).of(seat);
}

}  // namespace sluice
