#include "lib/schedules/plan/neighbours.h"

#include <algorithm>

#include "lib/base/by_block.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

int step_to(Direction side) {
  return side == Direction::above ? 1 : -1;
}

bool has_block(const RunPlan& plan, int seat, Direction side) {
  const int block = by_block(plan.blocks, seat).block + step_to(side);
  return block >= 1 && block <= plan.depth();
}

}  // namespace

int seat_of(const RunPlan& plan, int block, int replica) {
  if (!plan.is_uneven()) return (replica - 1) * plan.depth() + block;
  const auto found = std::find_if(
      plan.blocks.begin(), plan.blocks.end(), [&](const BlockPlan& each) {
        return each.block == block && each.replica == replica;
      });
  SLUICE_CHECK(found != plan.blocks.end(), "block {} has no replica {}", block,
               replica);
  return found->seat();
}

int replicas_of(const RunPlan& plan, int block) {
  if (!plan.is_uneven()) return plan.replicas;
  return static_cast<int>(by_block(plan.blocks, block).micro_batches.members);
}

int neighbour_with(const RunPlan& plan, int seat, Direction side,
                   MessageKind kind, std::int64_t batch) {
  if (!plan.is_uneven()) return seat + step_to(side);
  const int block = by_block(plan.blocks, seat).block + step_to(side);
  // Replica 1 evaluates, and has the first seats.
  if (kind == MessageKind::evaluation) return block;
  const MicroBatches& its = by_block(plan.blocks, block).micro_batches;
  return seat_of(plan, block, its.replica_with(batch));
}

std::vector<int> neighbours_in_turn(const RunPlan& plan, int seat,
                                    Direction side) {
  if (!has_block(plan, seat, side)) return {};
  if (!plan.is_uneven()) return {seat + step_to(side)};
  const MicroBatches& mine = by_block(plan.blocks, seat).micro_batches;
  std::vector<int> seats;
  for (std::int64_t i = 0; i < mine.in_turn(); ++i)
    seats.push_back(neighbour_with(plan, seat, side, MessageKind::activation,
                                   mine.batch_of(0, i)));
  return seats;
}

std::vector<int> neighbours_of(const RunPlan& plan, int seat, Direction side) {
  std::vector<int> seats = neighbours_in_turn(plan, seat, side);
  std::sort(seats.begin(), seats.end());
  seats.erase(std::unique(seats.begin(), seats.end()), seats.end());
  return seats;
}

std::vector<SeatPair> links_of(const RunPlan& plan) {
  std::vector<SeatPair> links;
  if (!plan.is_uneven()) {
    for (int seat = 1; seat < std::ssize(plan.blocks); ++seat)
      links.push_back({seat, seat + 1});
    return links;
  }
  for (const BlockPlan& lower : plan.blocks)
    for (const int upper : neighbours_of(plan, lower.seat(), Direction::above))
      links.push_back({lower.seat(), upper});
  return links;
}

int link_between(const RunPlan& plan, const SeatPair& seats) {
  if (!plan.is_uneven()) return seats.lower;
  const std::vector<SeatPair> links = links_of(plan);
  const auto found = std::find(links.begin(), links.end(), seats);
  SLUICE_CHECK(found != links.end(), "seats {} and {} have no link",
               seats.lower, seats.upper);
  return static_cast<int>(found - links.begin()) + 1;
}

namespace {

std::vector<int> by_batch(const RunPlan& plan, int seat, Direction side) {
  if (!has_block(plan, seat, side)) return {0};
  const MicroBatches& mine = by_block(plan.blocks, seat).micro_batches;
  std::vector<int> seats;
  for (std::int64_t batch = 0; batch < mine.dealt; ++batch)
    seats.push_back(
        neighbour_with(plan, seat, side, MessageKind::activation, batch));
  return seats;
}

}  // namespace

Neighbours::Neighbours(const RunPlan& plan, int seat)
    : below_(by_batch(plan, seat, Direction::below)),
      above_(by_batch(plan, seat, Direction::above)) {}

int Neighbours::of(const std::vector<int>& side, MessageKind kind,
                   std::int64_t batch) const {
  // Replica 1, which evaluates, has batch 0.
  if (kind == MessageKind::evaluation) return side.front();
  return side[static_cast<std::size_t>(batch) % side.size()];
}

}  // namespace sluice
