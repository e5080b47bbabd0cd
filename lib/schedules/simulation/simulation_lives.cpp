// Replicas that join the simulated ones, and that are lost.
#include <algorithm>
#include <iterator>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {
namespace {

bool begins_entry(const Action& action) {
  return action.op == Op::exchange && action.kind == ExchangeKind::entry;
}

}  // namespace

std::vector<int> Simulation::seats_of(int replica) const {
  std::vector<int> seats;
  for (const BlockPlan& each : plans_.front().blocks)
    if (each.replica == replica) seats.push_back(each.seat());
  return seats;
}

bool Simulation::is_entry_due(int seat) const {
  const Action& entry = by_block(lanes_, seat).actions.front();
  if (!begins_entry(entry)) return true;
  const int replica = by_block(plans_.front().blocks, seat).replica;
  const std::vector<int> seats = seats_of(replica);
  return std::all_of(seats.begin(), seats.end(), [&](int each) {
    const Lane& lane = by_block(lanes_, each);
    if (lane.actions.empty() || lane.joined >= entry.batch) return true;
    const Action& next = lane.actions.front();
    return begins_entry(next) && next.batch >= entry.batch;
  });
}

/// Forgets what the one before had under way, where a replica joins at a place
/// that another had.
void Simulation::begin_life(int seat, const Action& entry) {
  if (!begins_entry(entry)) return;
  const int replica = by_block(plans_.front().blocks, seat).replica;
  const std::vector<int> seats = seats_of(replica);
  if (std::none_of(seats.begin(), seats.end(), [&](int each) {
        return by_block(lanes_, each).joined >= entry.batch;
      }))
    empty_channels(replica);
  Lane& lane = by_block(lanes_, seat);
  lane.joined = entry.batch;
  ++lane.lives;
  lane.ledger = {};
}

void Simulation::empty_channels(int replica) {
  const auto empty = [](SimulatedChannel& channel) {
    channel.queue.clear();
    channel.room_since = channel.free_since = 0;
  };
  for (const int seat : seats_of(replica)) {
    if (by_block(plans_.front().blocks, seat).block == plans_.front().depth())
      continue;
    empty(by_block(up_, seat));
    empty(by_block(down_, seat));
  }
}

void Simulation::lose(int replica, double time) {
  SLUICE_CHECK(replica > 1 && plans_.front().blocks.front().exchange.served,
               "replica {} can't be lost in a simulation", replica);
  if (!lost_.insert(replica).second) return;
  for (const int seat : seats_of(replica)) {
    const BlockPlan& mine = by_block(plans_.front().blocks, seat);
    lose_at_meetings(mine);
    lose_at_centre(mine, time);
    by_block(lanes_, seat) = {};
  }
  empty_channels(replica);
  for (const int seat : dealt_to_)
    if (is_at_end(by_block(plans_.front().blocks, seat).replica, time))
      by_block(lanes_, seat).chooser->end_deal();
  dealer_.take_back(replica);
  forget_all();
}

void Simulation::lose_at_meetings(const BlockPlan& mine) {
  const Lane& lane = by_block(lanes_, mine.seat());
  const std::int64_t others = mine.exchange.members - std::ssize(lost_);
  for (auto each = meetings_.lower_bound({mine.block, 0});
       each != meetings_.end() && each->first.first == mine.block;) {
    const std::int64_t number = each->first.second;
    Meeting& meeting = each->second;
    if (number < lane.published) --meeting.published;
    if (number < lane.settled) --meeting.settled;
    const bool is_over = meeting.published == 0 || meeting.settled == others;
    each = is_over ? meetings_.erase(each) : std::next(each);
  }
}

void Simulation::lose_at_centre(const BlockPlan& mine, double time) {
  CentreQueue& centre = centre_of(mine);
  const auto visitor = centre.visitors.find(mine.seat());
  if (visitor != centre.visitors.end()) {
    centre.waiting.erase({visitor->second, mine.seat()});
    centre.visitors.erase(visitor);
  }
  centre.merged.erase(mine.replica);
  centre.brought.erase(mine.replica);
  if (!centre.gathering) return;
  centre.gathering->lose(mine.replica, time);
  merge_if_complete(centre, time);
}

/// Whether a replica has found by then that all batches of its grant are dealt:
/// what is dealt again belongs to the next one.
bool Simulation::is_at_end(int replica, double time) const {
  const std::vector<int> seats = seats_of(replica);
  return std::any_of(seats.begin(), seats.end(), [&](int seat) {
    const Lane& lane = by_block(lanes_, seat);
    if (!lane.chooser || !lane.chooser->turns_are_over(lane.ledger))
      return false;
    return !is_dealt_to(seat) || lane.clock <= time;
  });
}

void Simulation::admit(int replica, double time) {
  SLUICE_CHECK(lost_.erase(replica) == 1, "replica {} is there already",
               replica);
  for (const int seat : seats_of(replica)) {
    const BlockPlan& mine = by_block(plans_.front().blocks, seat);
    Lane& lane = by_block(lanes_, seat);
    lane = {};
    lane.clock = time;
    const Lane& first = by_block(lanes_, mine.block);
    lane.published = lane.settled = first.settled;
    CentreQueue& centre = centre_of(mine);
    if (centre.gathering) centre.gathering->admit(replica);
  }
  forget_all();
}

void Simulation::note_loss(const RecordedLoss& loss) {
  CentreQueue& centre = centre_of(by_block(plans_.front().blocks, loss.block));
  centre.losses.push_back(loss);
  is_local_ = false;  // what comes after depends on all that it does
  if (loss.is_dropped && centre.gathering) centre.dropped.insert(loss.served);
  if (!loss.has_place) return;
  centre.left_out.insert(loss.place);
  skip_left_out(centre);
}

bool Simulation::is_over(const RecordedLoss& loss) const {
  if (loss.life < 0) return true;
  const Lane& lane =
      by_block(lanes_, seat_of(plans_.front(), loss.block, loss.replica));
  if (lane.lives != loss.life) return lane.lives > loss.life;
  return lane.actions.empty() || begins_entry(lane.actions.front());
}

bool Simulation::are_losses_over(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  const Action& next = lane.actions.front();
  const BlockPlan& mine = by_block(plan_of(lane).blocks, seat);
  const bool comes_to_rest = next.op == Op::exchange && mine.replica == 1 &&
                             next.kind == ExchangeKind::agreement;
  const bool ends_wait = next.op == Op::settle && next.arrived > 0;
  const auto centre = centres_.find(mine.block);
  if ((!comes_to_rest && !ends_wait) || centre == centres_.end()) return true;
  const CentreQueue& its = centre->second;
  return std::all_of(its.losses.begin(), its.losses.end(),
                     [&](const RecordedLoss& loss) {
                       return !is_before(loss, next) ||
                              (its.served >= loss.place && is_over(loss));
                     });
}

void Simulation::skip_left_out(CentreQueue& centre) {
  while (centre.left_out.erase(centre.served + 1) > 0) ++centre.served;
}

void Simulation::note_taken(int block, int replica, std::int64_t batch) {
  if (block != 1 || !is_dealt_) return;
  dealer_.took(replica, batch);
  if (!dealer_.returned().empty()) forget_dealt();
}

}  // namespace sluice
