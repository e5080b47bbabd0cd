#include "lib/schedules/simulation/simulation.h"

#include <algorithm>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/plan/op_table.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {
namespace {

/// Turns of a grant whose actions are made at once: enough for a pass over them
/// to cost little, and few, since thousands of blocks hold them.
constexpr std::int64_t kTurnsAhead = 8;

/// Cuts the first turns off a grant of more.
Grant cut_off(Grant& grant) {
  Grant first = grant;
  first.end_turn = grant.first_turn = grant.first_turn + kTurnsAhead;
  first.drain = first.checkpoint = first.finish = false;
  first.evaluation_batches = 0;
  return first;
}

}  // namespace

Simulation::Simulation(Plans plans, Costs costs,
                       std::vector<Capacity> capacities)
    : plans_(std::move(plans)),
      costs_(by_seat(std::move(costs), plans_.at(0))) {
  const std::size_t blocks = plans_.at(0).blocks.size();
  lanes_.resize(blocks);
  outlooks_.resize(blocks);
  for (std::size_t seat = 1; seat <= blocks; ++seat)
    unknown_.push_back(static_cast<int>(seat));
  for (const RunPlan& plan : plans_) {
    has_barriers_ = has_barriers_ || plan.barrier != Barrier::none;
    for (const BlockPlan& block : plan.blocks) {
      is_local_ = is_local_ && block.free.has_plain_inboxes();
      is_dealt_ = is_dealt_ || block.micro_batches.by_arrival;
      shares_weights_ = shares_weights_ || block.exchange.in_memory;
    }
  }
  for (std::size_t seat = 1; seat <= blocks; ++seat)
    if (is_dealt_to(static_cast<int>(seat)))
      dealt_to_.push_back(static_cast<int>(seat));
  group_by_executor();
  rests_[0].seats = static_cast<int>(blocks);
  done_.resize(blocks);
  const std::vector<SeatPair> links = links_of(plans_.at(0));
  SLUICE_CHECK(capacities.size() == links.size(),
               "{} capacities for {} links of {} blocks", capacities.size(),
               links.size(), blocks);
  if (plans_.at(0).is_uneven())
    for (const SeatPair& link : links)
      uneven_links_.emplace(link, static_cast<int>(uneven_links_.size()) + 1);
  for (const Capacity& capacity : capacities) {
    up_.push_back({{}, capacity.up, 0, 0});
    down_.push_back({{}, capacity.down, 0, 0});
  }
  core_.resize(blocks);
  for (const SharedCores& shared : costs_.shared) {
    for (const int block : shared.blocks)
      by_block(core_, block) = cores_.size();
    cores_.emplace_back(std::max<std::int64_t>(1, shared.cores), 0);
  }
  lines_.resize(cores_.size() + 1);
  for (const BlockPlan& block : plans_.at(0).blocks) {
    if (block.free.inbox_below.buffer) {
      by_block(up_, block.seat() - 1)
          .buffer.emplace(*block.free.inbox_below.buffer);
      buffered_.push_back(block.seat());
    }
    if (block.free.inbox_above.drops())
      by_block(up_, block.seat())
          .waiting.emplace(block.free.inbox_above.slow_consumer);
  }
}

void Simulation::group_by_executor() {
  std::map<int, std::vector<int>> seats;
  for (const BlockPlan& block : plans_.front().blocks)
    seats[executor_of(block.seat())].push_back(block.seat());
  for (const BlockPlan& block : plans_.front().blocks)
    beside_.push_back(block.placement.is_shared()
                          ? seats.at(executor_of(block.seat()))
                          : std::vector<int>{block.seat()});
}

double SavedClock::latest() const {
  return seats.empty() ? 0 : *std::max_element(seats.begin(), seats.end());
}

void Simulation::begin_at(std::int64_t phase, std::int64_t turn,
                          std::int64_t first_batch, const SavedClock& saved) {
  forget_all();
  const RunPlan& now = plan(phase);
  begin_with(in_flight(now, turn, first_batch), saved);
  for (const BlockPlan& plan : now.blocks)
    by_block(lanes_, plan.seat()).ledger.begin(plan, turn, first_batch);
}

void Simulation::begin_pipe(int block, const Grant& first) {
  forget_beside(block);
  const BlockPlan& mine = by_block(plan(first.phase).blocks, block);
  if (mine.free.in_flight > 0) return;  // what it chooses from is its own
  Ledger& ledger = by_block(lanes_, block).ledger;
  ledger = {};
  ledger.begin(mine, first.first_turn, first.first_batch);
}

void Simulation::begin_free_at(std::int64_t phase,
                               const std::vector<Ledger>& ledgers,
                               const SavedClock& saved) {
  begin_with(under_way(plan(phase), ledgers), saved);
  for (std::size_t k = 0; k < lanes_.size(); ++k)
    lanes_[k].ledger = ledgers.at(k);
}

void Simulation::begin_with(const std::vector<Transfer>& gradients,
                            const SavedClock& saved) {
  for (const Transfer& sent : gradients) {
    const auto came = saved.gradients.find({sent.to, sent.batch});
    const double arrival = came == saved.gradients.end() ? 0 : came->second;
    SimulatedChannel& to = channel(sent);
    to.queue.push_back({sent, arrival});
    to.free_since = std::max(0.0, arrival - costs_.latency);
  }
  for (std::size_t k = 0; k < saved.seats.size() && k < lanes_.size(); ++k)
    lanes_[k].clock = saved.seats[k];
  latest_end_ = latest_rest_ = saved.latest();
}

void Simulation::append(int block, const std::vector<Action>& actions) {
  forget_beside(block);
  Lane& lane = by_block(lanes_, block);
  if (lane.actions.empty()) lane.transfers.is_known = false;
  lane.actions.insert(lane.actions.end(), actions.begin(), actions.end());
  count_stage(block);
  count_rests(block);
}

void Simulation::refill(int block) {
  Lane& lane = by_block(lanes_, block);
  while (lane.actions.empty() && !lane.later.empty()) {
    Grant& next = lane.later.front();
    const BlockPlan& mine = by_block(plan(next.phase).blocks, block);
    // Without a flush the end of a grant is that of the pipe.
    if (mine.flush && next.end_turn - next.first_turn > kTurnsAhead) {
      append(block, actions_of(mine, cut_off(next)));
    } else {
      append(block, actions_of(mine, next));
      lane.later.pop_front();
    }
  }
}

void Simulation::extend(int block, const std::vector<Action>& actions) {
  SLUICE_CHECK(by_block(lanes_, block).later.empty(),
               "block {} is told what to do in the turns that it was given",
               block);
  for (const Action& action : actions) {
    if (action.phase >= std::ssize(plans_))
      throw UserError("{} ({}) is of phase {}, and there are {}",
                      name_of_seat(plans_.front(), block), to_text(action),
                      action.phase, plans_.size());
    if (action.kind == ExchangeKind::agreement) {
      const int of = by_block(plan(action.phase).blocks, block).block;
      agreeing_[{of, action.batch}].insert(block);
      is_local_ = false;
    }
    if (action.kind == ExchangeKind::entry) is_local_ = false;
    if (action.dropped.empty() || action.op != Op::forward) continue;
    if (block == std::ssize(lanes_) || !by_block(up_, block).waiting)
      throw UserError(
          "block {} ({}) drops activations, and slow_consumer of the boundary "
          "above it is 'block'",
          block, to_text(action));
    by_block(up_, block)
        .dropped.insert(action.dropped.begin(), action.dropped.end());
  }
  append(block, actions);
}

void Simulation::give(int block, const Grant& grant) {
  forget_beside(block);
  const BlockPlan& mine = by_block(plan(grant.phase).blocks, block);
  if (mine.placement.is_shared()) return give_shared(block, grant);
  Lane& lane = by_block(lanes_, block);
  if (mine.free.in_flight == 0) {
    lane.later.push_back(grant);
    return refill(block);
  }
  if (!lane.chooser) {
    lane.chooser.emplace(phases_of(plans_, block));
    lane.chooser->begin_after(lane.ledger.updates());
  }
  if (is_dealt_to(block)) {
    dealer_.open(mine.micro_batches.first_of(grant.first_turn),
                 mine.micro_batches.first_of(grant.end_turn));
    forget_dealt();
  }
  SLUICE_CHECK(lane.chooser->is_done(lane.ledger),
               "block {} is given turns before it has done its last", block);
  lane.chooser->give(grant);
}

/// Every block of the executor is given the same grants in the same order.
void Simulation::give_shared(int block, const Grant& grant) {
  Lane& lane = by_block(lanes_, block);
  std::vector<Action> mine;
  for (SeatAction& each :
       executor_actions(plan(grant.phase), executor_of(block), grant)) {
    const std::int64_t place = lane.given++;
    if (each.seat != block) continue;
    lane.places.push_back(place);
    mine.push_back(std::move(each.action));
  }
  append(block, mine);
}

int Simulation::executor_of(int block) const {
  return sluice::executor_of(plans_.front(), block);
}

const std::vector<int>& Simulation::of_same_executor(int block) const {
  return by_block(beside_, block);
}

bool Simulation::is_its_turn(int block) const {
  const Lane& lane = by_block(lanes_, block);
  return lane.places.empty() ||
         lane.places.front() ==
             done_[static_cast<std::size_t>(executor_of(block))];
}

int Simulation::comes_before(int block) const {
  for (const int other : of_same_executor(block))
    if (!by_block(lanes_, other).places.empty() && is_its_turn(other))
      return other;
  return 0;
}

int Simulation::link_of(const Transfer& transfer) const {
  if (uneven_links_.empty()) return transfer.lower();
  return uneven_links_.at({transfer.lower(), transfer.upper()});
}

SimulatedChannel& Simulation::channel(const Transfer& transfer) {
  return by_block(transfer.goes_up() ? up_ : down_, link_of(transfer));
}

const SimulatedChannel& Simulation::channel(const Transfer& transfer) const {
  return by_block(transfer.goes_up() ? up_ : down_, link_of(transfer));
}

const RunPlan& Simulation::plan(std::int64_t phase) const {
  return plans_.at(static_cast<std::size_t>(phase));
}

void Simulation::hold(int block, double until) {
  forget_all();
  for (const int each : of_same_executor(block)) {
    Lane& lane = by_block(lanes_, each);
    lane.clock = std::max(lane.clock, until);
  }
}

const RunPlan& Simulation::plan_of(const Lane& lane) const {
  return plan(lane.actions.front().phase);
}

void Simulation::occupy(int block, double end) {
  const std::optional<std::size_t> core = by_block(core_, block);
  if (!core) return;
  std::vector<double>& cores = cores_[*core];
  *std::min_element(cores.begin(), cores.end()) = end;
  for (const int each : costs_.shared[*core].blocks)
    if (by_block(lanes_, each).is_choice_of_time) forget(each);
}

/// Moves what lies in the channel before an evaluation into the buffer, so that
/// the evaluation, and what waits at the sender, finds room. Returns whether
/// anything did.
bool Simulation::take_before_evaluation() {
  for (int block = 2; block <= std::ssize(lanes_); ++block) {
    const Lane& lane = by_block(lanes_, block);
    if (!by_block(plans_.front().blocks, block).free.inbox_below.buffer)
      continue;
    const SimulatedChannel& below = by_block(up_, block - 1);
    const bool waits = below.buffer && !below.queue.empty() &&
                       !lane.actions.empty() &&
                       lane.actions.front().op == Op::evaluate;
    if (!waits) continue;
    const SimulatedChannel::QueuedTransfer& first = below.queue.front();
    if (first.transfer.kind != MessageKind::activation) continue;
    write_buffer(block, std::max(first.arrival, lane.clock));
    return true;
  }
  return false;
}

std::optional<TimedAction> Simulation::next() {
  const auto [chosen, earliest] = next_seat();
  if (chosen == 0) {
    if (!take_before_evaluation() && !merge_those_who_wait())
      return std::nullopt;
    forget_all();
    return next();
  }

  Lane& lane = by_block(lanes_, chosen);
  const std::optional<std::int64_t> stage = lane.stage;
  if (stage && *stage > stage_) {
    stage_ = *stage;
    stage_start_ = latest_end_;
  }
  Action action = lane.actions.front();
  read_buffer(chosen, earliest, action);
  take_merged(chosen, earliest, action);
  lane.actions.pop_front();
  refill(chosen);
  const double end = end_of(chosen, action, earliest);
  for (const int each : of_same_executor(chosen))
    by_block(lanes_, each).clock = end;
  if (!lane.places.empty()) {
    lane.places.pop_front();
    ++done_[static_cast<std::size_t>(executor_of(chosen))];
  }
  if (end > earliest) occupy(chosen, end);
  if (stage) latest_end_ = std::max(latest_end_, end);
  begin_life(chosen, action);
  lane.ledger.did(by_block(plan(action.phase).blocks, chosen), action);
  meet(chosen, action, end);
  rest(chosen, action, end);
  if (lane.chooser) {
    if (action.op == Op::forward && is_dealt_to(chosen)) {
      take_deal(chosen, action);
      forget_dealt();
    }
    lane.chooser->did(action);
    lane.admissions.did(action, lane.chooser->room(lane.ledger), end);
  }
  for (const Transfer& need : lane.transfers.needs) {
    SimulatedChannel& from = channel(need);
    const bool was_full = from.queue.size() == from.capacity;
    from.pop(costs_, earliest);
    if (was_full) from.room_since = earliest;
  }
  forget_after(chosen);
  double arrival = 0;
  for (const Transfer& yield : lane.transfers.yields) {
    send(yield, end, action);
    const auto& queue = channel(yield).queue;
    if (!queue.empty()) arrival = queue.back().arrival;
  }
  lane.transfers.is_known = false;
  count_stage(chosen);
  count_rests(chosen);
  return TimedAction{chosen, action, earliest, end, arrival};
}

void Simulation::send(const Transfer& transfer, double time, Action& action) {
  if (const auto lost = channel(transfer).send(costs_, transfer, time,
                                               is_told(transfer.from)))
    action.dropped.push_back(*lost);
}

bool Simulation::idle(int block) const {
  const Lane& lane = by_block(lanes_, block);
  return lane.chooser ? lane.chooser->is_done(lane.ledger)
                      : lane.actions.empty();
}

bool Simulation::finished() const {
  for (int block = 1; block <= std::ssize(lanes_); ++block)
    if (!idle(block)) return false;
  return true;
}

std::vector<std::pair<int, bool>> Simulation::full_channels() const {
  std::vector<std::pair<int, bool>> full;
  for (int link = 1; link <= std::ssize(up_); ++link) {
    if (by_block(up_, link).queue.size() >= by_block(up_, link).capacity)
      full.emplace_back(link, true);
    if (by_block(down_, link).queue.size() >= by_block(down_, link).capacity)
      full.emplace_back(link, false);
  }
  return full;
}

void Simulation::widen(int link, bool is_up) {
  forget_all();
  ++by_block((is_up ? up_ : down_), link).capacity;
}

}  // namespace sluice
