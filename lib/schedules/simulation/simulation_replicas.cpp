// Exchanges of the replicas of simulated blocks.
#include <algorithm>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {
namespace {

bool is_between(const Action& exchange, ExchangePartners replicas) {
  return is_exchange(exchange.op) && row_of(exchange.kind).between == replicas;
}

/// Whether the action is an evaluation or a checkpoint, or the exchange before
/// it. Replicas that share weights have no other exchanges.
bool is_of_rest(const Action& action) {
  return is_exchange(action.op) || action.op == Op::evaluate ||
         action.op == Op::save;
}

}  // namespace

void Simulation::meet(int seat, const Action& action, double end) {
  if (!is_exchange(action.op)) return;
  const BlockPlan& mine = by_block(plan(action.phase).blocks, seat);
  if (is_between(action, ExchangePartners::centre))
    return visit(seat, action, end);
  Lane& lane = by_block(lanes_, seat);
  const bool publishes = action.op == Op::exchange;
  if (publishes && mine.exchange.quorum.is_there()) rest(mine, end);
  const std::int64_t number = publishes ? lane.published++ : lane.settled++;
  Meeting& meeting = meetings_[{mine.block, number}];
  if (!publishes) {
    if (++meeting.settled == taking_part(mine, action))
      meetings_.erase({mine.block, number});
    return;
  }
  SLUICE_CHECK(meeting.published == 0 ||
                   (meeting.turn == action.turn && meeting.kind == action.kind),
               "block {}: its replicas exchange those of turns {} and {}",
               mine.block, meeting.turn, action.turn);
  meeting.turn = action.turn;
  meeting.kind = action.kind;
  meeting.all_published = std::max(meeting.all_published, end);
  ++meeting.published;
  const RunPlan& now = plan(action.phase);
  if (is_between(action, ExchangePartners::peers)) {
    meeting.published_at[mine.replica] = end;
    for (const int peer : peers_of(mine, action).to)
      forget(seat_of(now, mine.block, peer));
    return;
  }
  if (meeting.published < taking_part(mine, action)) return;
  for (int replica = 1; replica <= mine.exchange.members; ++replica)
    forget(seat_of(now, mine.block, replica));
}

/// Replicas that a rest is of: where a record says what they do, some may be
/// lost, or not there yet.
std::int64_t Simulation::taking_part(const BlockPlan& mine,
                                     const Action& exchange) const {
  const auto found = agreeing_.find({mine.block, exchange.batch});
  const bool is_told =
      exchange.kind == ExchangeKind::agreement && found != agreeing_.end();
  return is_told ? std::ssize(found->second)
                 : mine.exchange.members - std::ssize(lost_);
}

/// Whether those that are lost before a rest have done all that they did.
bool Simulation::are_lost_done(const BlockPlan& mine,
                               const Action& exchange) const {
  const auto found = agreeing_.find({mine.block, exchange.batch});
  if (found == agreeing_.end()) return true;
  const RunPlan& now = plan(exchange.phase);
  for (int replica = 1; replica <= mine.exchange.members; ++replica) {
    const int seat = seat_of(now, mine.block, replica);
    const Lane& lane = by_block(lanes_, seat);
    if (lane.actions.empty()) continue;
    const Action& next = lane.actions.front();
    const bool joins_later =
        lane.joined >= exchange.batch ||
        (next.kind == ExchangeKind::entry && next.batch >= exchange.batch);
    if (!joins_later && !found->second.contains(seat)) return false;
  }
  return true;
}

/// Rests of a block before a replica joins.
std::int64_t Simulation::rests_before(const Action& entry, int block) const {
  return std::distance(agreeing_.lower_bound({block, -1}),
                       agreeing_.upper_bound({block, entry.batch}));
}

/// Counts those as its own.
void Simulation::enter(int seat, const Action& entry) {
  Lane& lane = by_block(lanes_, seat);
  if (lane.chooser) return;  // admit() has
  const int block = by_block(plan(entry.phase).blocks, seat).block;
  lane.published = lane.settled = rests_before(entry, block);
}

double Simulation::end_of(int seat, const Action& action, double start) const {
  const BlockPlan& mine = by_block(plan(action.phase).blocks, seat);
  if (action.kind == ExchangeKind::pull)
    return start + visit_seconds(costs_, mine, action);
  const double done = start + seconds_of(costs_, mine, action);
  const bool goes_back = action.op == Op::settle &&
                         is_between(action, ExchangePartners::centre) &&
                         !mine.exchange.quorum.is_there();
  if (!goes_back) return done;
  return done + visit_seconds(costs_, mine, action);
}

/// A settle takes the time of the centre, which serves one replica at a time.
void Simulation::visit(int seat, const Action& action, double end) {
  const BlockPlan& mine = by_block(plan(action.phase).blocks, seat);
  if (action.kind == ExchangeKind::pull) return;
  CentreQueue& centre = mine.exchange.visits_partners
                            ? centres_[host_seat(mine, action)]
                            : centre_of(mine);
  const double on_its_way = visit_seconds(costs_, mine, action);
  forget_visitors(centre);
  if (action.op == Op::exchange) {
    const double arrival = end + on_its_way;
    centre.waiting.emplace(arrival, seat);
    centre.visitors.insert_or_assign(seat, arrival);
    return forget_visitors(centre);
  }
  if (action.kind == ExchangeKind::entry) enter(seat, action);
  centre.waiting.erase({centre.visitors.at(seat), seat});
  if (!centre.gathering) centre.visitors.erase(seat);
  if (!centre.gathering && action.kind == ExchangeKind::push)
    note_taken(mine.block, mine.replica, action.batch);
  ++centre.served;
  skip_left_out(centre);
  if (centre.gathering && action.kind == ExchangeKind::push) {
    centre.free_since = std::max(centre.free_since, end);
    return bring(mine, action.batch, end);
  }
  centre.free_since = std::max(centre.free_since, end - on_its_way);
  forget_visitors(centre);
}

/// Forgets the outlooks of those that the centre may serve next. The first one
/// alone where they are served in the order of their arrival.
void Simulation::forget_visitors(const CentreQueue& centre) {
  if (centre.visitors.empty()) return;
  const int any = centre.visitors.begin()->first;
  if (!centre.gathering && !is_told(any)) {
    if (!centre.waiting.empty()) forget(centre.waiting.begin()->second);
    return;
  }
  for (const auto& [seat, arrival] : centre.visitors) forget(seat);
}

int Simulation::host_seat(const BlockPlan& mine, const Action& visit) const {
  return seat_of(plans_.front(), mine.block, host_of(mine, visit));
}

Simulation::CentreQueue& Simulation::centre_of(const BlockPlan& mine) {
  CentreQueue& centre = centres_[seat_of(plans_.front(), mine.block, 1)];
  if (mine.exchange.quorum.is_there() && !centre.gathering)
    centre.gathering.emplace(mine.exchange.quorum, mine.exchange.members);
  return centre;
}

void Simulation::bring(const BlockPlan& mine, std::int64_t turn, double time) {
  CentreQueue& centre = centre_of(mine);
  if (centre.dropped.erase(centre.served) > 0) return;
  const Lane& lane = by_block(lanes_, mine.seat());
  centre.is_told = !lane.actions.empty() &&
                   lane.actions.front().kind == ExchangeKind::pull &&
                   lane.actions.front().arrived > 0;
  if (centre.gathering->bring(mine.replica, turn, time)) {
    if (mine.block == 1) centre.brought[mine.replica] = turn;
    return merge_if_complete(centre, time);
  }
  centre.merged[mine.replica] = {time, centre.served,
                                 centre.gathering->merged_turn()};
}

void Simulation::rest(const BlockPlan& mine, double time) {
  CentreQueue& centre = centre_of(mine);
  forget_visitors(centre);
  centre.gathering->rest(mine.replica, time);
  merge_if_complete(centre, time);
}

void Simulation::merge_if_complete(CentreQueue& centre, double time) {
  if (!centre.is_told && centre.gathering->is_complete()) merge(centre, time);
}

void Simulation::merge(CentreQueue& centre, double time) {
  const std::vector<int> members = centre.gathering->merge(time);
  for (const int member : members) {
    centre.merged[member] = {time, centre.served,
                             centre.gathering->merged_turn()};
    if (const auto brought = centre.brought.extract(member))
      note_taken(1, member, brought.mapped());
  }
}

bool Simulation::others_merge_before(const BlockPlan& mine,
                                     const CentreQueue& centre,
                                     std::int64_t place) const {
  if (!centre.gathering) return false;
  const int depth = plans_.front().depth();
  for (int member = 1; member <= mine.exchange.members; ++member) {
    if (!centre.gathering->waits(member)) continue;
    const Lane& other = by_block(lanes_, (member - 1) * depth + mine.block);
    if (other.actions.empty()) continue;
    const std::int64_t merged = other.actions.front().arrived;
    if (merged > 0 && merged < place) return true;
  }
  return false;
}

/// Time at which the seat's push was merged; a record, where there is one, says
/// after how many.
std::optional<double> Simulation::merged_since(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  const Action& settle = lane.actions.front();
  const BlockPlan& mine = by_block(plan_of(lane).blocks, seat);
  const auto found = centres_.find(mine.block);
  if (found == centres_.end()) return std::nullopt;
  const CentreQueue& centre = found->second;
  const auto own = centre.merged.find(mine.replica);
  if (own != centre.merged.end()) return own->second.since;
  if (settle.arrived > 0) {
    if (centre.served < settle.arrived) return std::nullopt;
    return 0;
  }
  return centre.gathering->due();
}

/// Merges what free replicas wait for, where no other replica arrives in the
/// turns that were granted, as in a plan that is simulated for a while. Returns
/// whether a replica waited.
bool Simulation::merge_those_who_wait() {
  for (auto& [block, centre] : centres_) {
    std::optional<double> latest;
    for (const BlockPlan& each : plans_.front().blocks) {
      const Lane& lane = by_block(lanes_, each.seat());
      if (each.block == block && lane.chooser && centre.gathering &&
          centre.gathering->waits(each.replica))
        latest = std::max(latest.value_or(lane.clock), lane.clock);
    }
    if (!latest) continue;
    merge(centre, *latest);
    return true;
  }
  return false;
}

/// The first replica that needs not wait any more merges all that wait.
void Simulation::take_merged(int seat, double now, Action& action) {
  const BlockPlan& mine = by_block(plan(action.phase).blocks, seat);
  if (action.kind != ExchangeKind::pull) return;
  CentreQueue& centre = centre_of(mine);
  forget_visitors(centre);
  centre.visitors.erase(seat);
  if (!centre.merged.contains(mine.replica)) merge(centre, now);
  const auto own = centre.merged.extract(mine.replica);
  const auto& chooser = by_block(lanes_, seat).chooser;
  if (action.arrived == 0) action.arrived = own.mapped().served;
  if (mine.exchange.quorum.drops_late && chooser)
    action.dropped = chooser->behind(own.mapped().turn);
}

std::optional<double> Simulation::served_since(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  const Action& settle = lane.actions.front();
  const BlockPlan& mine = by_block(plan_of(lane).blocks, seat);
  const auto found = centres_.find(host_seat(mine, settle));
  if (found == centres_.end()) return std::nullopt;
  const CentreQueue& centre = found->second;
  const auto own = centre.visitors.find(seat);
  if (own == centre.visitors.end()) return std::nullopt;
  if (settle.kind == ExchangeKind::entry &&
      by_block(lanes_, found->first).settled <
          rests_before(settle, found->first))
    return std::nullopt;
  // The next push is the one that a record names; without a record, pushes go
  // by arrival.
  const bool is_next =
      settle.arrived > 0
          ? centre.served + 1 == settle.arrived
          : !centre.waiting.empty() && seat == centre.waiting.begin()->second;
  if (!is_next || others_merge_before(mine, centre, settle.arrived))
    return std::nullopt;
  return std::max(own->second, centre.free_since);
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
  if (lane.actions.front().kind == ExchangeKind::pull)
    return merged_since(seat);
  if (is_between(lane.actions.front(), ExchangePartners::centre))
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
  if (!is_between(lane.actions.front(), ExchangePartners::peers)) {
    const Action& settle = lane.actions.front();
    if (meeting->published < taking_part(mine, settle) ||
        !are_lost_done(mine, settle))
      return std::nullopt;
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
  const bool takes_from_all = !is_between(settle, ExchangePartners::peers);
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

void Simulation::count_rests(int seat) {
  if (!shares_weights_) return;
  Lane& lane = by_block(lanes_, seat);
  const bool is_at_it =
      !lane.actions.empty() && (lane.actions.front().op == Op::evaluate ||
                                lane.actions.front().op == Op::save);
  Rests& now = rests_[lane.rests];
  ++now.seats;
  now.at_it += is_at_it ? 1 : 0;
  const auto counted = rests_.find(lane.counted_rests);
  counted->second.at_it -= lane.counted_at_it ? 1 : 0;
  if (--counted->second.seats == 0) rests_.erase(counted);
  lane.counted_rests = lane.rests;
  lane.counted_at_it = is_at_it;
}

std::optional<double> Simulation::rested_since(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  if (!by_block(plan_of(lane).blocks, seat).exchange.in_memory ||
      is_of_rest(lane.actions.front()))
    return 0;
  const auto& [least, first] = *rests_.begin();
  if (least < lane.rests || first.at_it > 0) return std::nullopt;
  return latest_rest_;
}

void Simulation::rest(int seat, const Action& action, double end) {
  if (!by_block(plan(action.phase).blocks, seat).exchange.in_memory ||
      !is_of_rest(action) || action.op == Op::exchange)
    return;
  Lane& lane = by_block(lanes_, seat);
  if (action.op == Op::settle) ++lane.rests;
  latest_rest_ = std::max(latest_rest_, end);
  forget_all();
}

}  // namespace sluice
