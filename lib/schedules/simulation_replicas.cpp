// What the replicas of simulated blocks exchange.
#include <algorithm>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/simulation.h"

namespace sluice {
namespace {

/// Of replicas that share weights, who exchange nothing else: whether it is
/// what they agree for, or that itself.
bool is_of_rest(const Action& action) {
  return action.op == Op::exchange || action.op == Op::settle ||
         action.op == Op::evaluate || action.op == Op::save;
}

}  // namespace

void Simulation::meet(int seat, const Action& action, double end) {
  if (action.op != Op::exchange && action.op != Op::settle) return;
  const BlockPlan& mine = by_block(plan(action.phase).blocks, seat);
  if (is_served(mine, action)) return visit(seat, action, end);
  Lane& lane = by_block(lanes_, seat);
  const bool publishes = action.op == Op::exchange;
  const std::int64_t number = publishes ? lane.published++ : lane.settled++;
  Meeting& meeting = meetings_[{mine.block, number}];
  if (!publishes) {
    if (++meeting.settled == mine.exchange.members)
      meetings_.erase({mine.block, number});
    return;
  }
  SLUICE_CHECK(meeting.published == 0 || (meeting.turn == action.turn &&
                                          meeting.round == action.round),
               "block {}: its replicas exchange those of turns {} and {}",
               mine.block, meeting.turn, action.turn);
  meeting.turn = action.turn;
  meeting.round = action.round;
  meeting.all_published = std::max(meeting.all_published, end);
  ++meeting.published;
  const RunPlan& now = plan(action.phase);
  if (is_among_peers(mine, action)) {
    meeting.published_at[mine.replica] = end;
    for (const int peer : peers_of(mine, action).to)
      forget((peer - 1) * now.depth() + mine.block);
    return;
  }
  if (meeting.published < mine.exchange.members) return;
  for (int other = mine.block; other <= std::ssize(lanes_);
       other += now.depth())
    forget(other);
}

double Simulation::end_of(int seat, const Action& action, double start) const {
  const BlockPlan& mine = by_block(plan(action.phase).blocks, seat);
  const double done = start + seconds_of(costs_, mine, action);
  if (action.op != Op::settle || !is_served(mine, action)) return done;
  return done + visit_seconds(costs_, mine, action);
}

/// What a settle takes is the centre's time, which serves nobody else then.
void Simulation::visit(int seat, const Action& action, double end) {
  const BlockPlan& mine = by_block(plan(action.phase).blocks, seat);
  CentreQueue& centre = centres_[mine.block];
  const double on_its_way = visit_seconds(costs_, mine, action);
  if (action.op == Op::exchange) {
    centre.waiting.emplace(end + on_its_way, seat);
    return;
  }
  std::erase_if(centre.waiting,
                [&](const auto& each) { return each.second == seat; });
  ++centre.served;
  centre.free_since = std::max(centre.free_since, end - on_its_way);
}

std::optional<double> Simulation::served_since(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  const Action& settle = lane.actions.front();
  const auto found = centres_.find(by_block(plan_of(lane).blocks, seat).block);
  if (found == centres_.end()) return std::nullopt;
  const CentreQueue& centre = found->second;
  const auto own =
      std::find_if(centre.waiting.begin(), centre.waiting.end(),
                   [&](const auto& each) { return each.second == seat; });
  if (own == centre.waiting.end()) return std::nullopt;
  // A record says the order; else that of their arrival is the order.
  const bool is_next = settle.arrived > 0 ? centre.served + 1 == settle.arrived
                                          : own == centre.waiting.begin();
  if (!is_next) return std::nullopt;
  return std::max(own->first, centre.free_since);
}

const Simulation::Meeting* Simulation::meeting_of(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  const int block = by_block(plan_of(lane).blocks, seat).block;
  const auto found = meetings_.find({block, lane.settled});
  return found == meetings_.end() ? nullptr : &found->second;
}

std::optional<double> Simulation::settled_since(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  if (lane.actions.front().op != Op::settle) return 0;
  if (is_served(by_block(plan_of(lane).blocks, seat), lane.actions.front()))
    return served_since(seat);
  const std::optional<double> since = published_since(seat);
  if (!since) return std::nullopt;
  return *since + exchange_seconds(costs_, by_block(plan_of(lane).blocks, seat),
                                   lane.actions.front());
}

std::optional<double> Simulation::published_since(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  const BlockPlan& mine = by_block(plan_of(lane).blocks, seat);
  const Meeting* meeting = meeting_of(seat);
  if (meeting == nullptr) return std::nullopt;
  if (!is_among_peers(mine, lane.actions.front())) {
    if (meeting->published < mine.exchange.members) return std::nullopt;
    return meeting->all_published;
  }
  double since = meeting->published_at.at(mine.replica);
  for (const int peer : peers_of(mine, lane.actions.front()).from) {
    const auto found = meeting->published_at.find(peer);
    if (found == meeting->published_at.end()) return std::nullopt;
    since = std::max(since, found->second);
  }
  return since;
}

int Simulation::awaited_replica(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  const RunPlan& now = plan_of(lane);
  const BlockPlan& mine = by_block(now.blocks, seat);
  const Action& settle = lane.actions.front();
  const bool takes_from_all = !is_among_peers(mine, settle);
  const Peers peers = takes_from_all ? Peers() : peers_of(mine, settle);
  for (const BlockPlan& other : now.blocks)
    if (other.block == mine.block &&
        by_block(lanes_, other.seat()).published <= lane.settled &&
        (takes_from_all || std::binary_search(peers.from.begin(),
                                              peers.from.end(), other.replica)))
      return other.seat();
  return 0;
}

int Simulation::at_rest(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  if (!by_block(plan_of(lane).blocks, seat).exchange.in_memory ||
      is_of_rest(lane.actions.front()))
    return 0;
  for (int other = 1; other <= std::ssize(lanes_); ++other) {
    const Lane& its = by_block(lanes_, other);
    const bool is_at_it = its.rests == lane.rests && !its.actions.empty() &&
                          (its.actions.front().op == Op::evaluate ||
                           its.actions.front().op == Op::save);
    if (its.rests < lane.rests || is_at_it) return other;
  }
  return 0;
}

std::optional<double> Simulation::rested_since(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  if (!by_block(plan_of(lane).blocks, seat).exchange.in_memory ||
      is_of_rest(lane.actions.front()))
    return 0;
  if (at_rest(seat) != 0) return std::nullopt;
  double since = 0;
  for (const Lane& each : lanes_) since = std::max(since, each.rested);
  return since;
}

void Simulation::rest(int seat, const Action& action, double end) {
  if (!by_block(plan(action.phase).blocks, seat).exchange.in_memory ||
      !is_of_rest(action) || action.op == Op::exchange)
    return;
  Lane& lane = by_block(lanes_, seat);
  if (action.op == Op::settle) ++lane.rests;
  lane.rested = end;
  forget_all();
}

}  // namespace sluice
