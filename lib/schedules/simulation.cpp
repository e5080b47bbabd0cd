#include "lib/schedules/simulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/executors.h"
#include "lib/schedules/op_table.h"

namespace sluice {
namespace {

/// More than a phase of a timetable has between its barriers.
constexpr std::int64_t kStagesOfPhase = std::int64_t{1} << 42;

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
  is_local_ = costs_.shared.empty();
  for (const RunPlan& plan : plans_) {
    is_local_ = is_local_ && plan.barrier == Barrier::none && !plan.is_uneven();
    for (const BlockPlan& block : plan.blocks)
      is_local_ = is_local_ && block.in_flight == 0;
  }
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
  for (const BlockPlan& block : plans_.at(0).blocks) {
    if (block.inbox_below.buffer)
      by_block(up_, block.seat() - 1).buffer.emplace(*block.inbox_below.buffer);
    if (block.inbox_above.drops())
      by_block(up_, block.seat())
          .waiting.emplace(block.inbox_above.slow_consumer);
  }
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
  if (mine.in_flight > 0) return;  // what it chooses from is its own
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
    Direction& to = channel(sent);
    to.queue.push_back({sent, arrival});
    to.free_since = std::max(0.0, arrival - costs_.latency);
  }
  for (std::size_t k = 0; k < saved.seats.size() && k < lanes_.size(); ++k)
    lanes_[k].clock = lanes_[k].rested = saved.seats[k];
  latest_end_ = saved.latest();
}

void Simulation::extend(int block, const std::vector<Action>& actions) {
  forget_beside(block);
  std::deque<Action>& queue = by_block(lanes_, block).actions;
  queue.insert(queue.end(), actions.begin(), actions.end());
  for (const Action& action : actions) {
    if (action.phase >= std::ssize(plans_))
      throw UserError("{} ({}) is of phase {}, and there are {}",
                      name_of_seat(plans_.front(), block), to_text(action),
                      action.phase, plans_.size());
    if (action.dropped.empty() || action.op != Op::forward) continue;
    if (block == std::ssize(lanes_) || !by_block(up_, block).waiting)
      throw UserError(
          "block {} ({}) drops activations, and slow_consumer of the boundary "
          "above it is 'block'",
          block, to_text(action));
    by_block(up_, block)
        .dropped.insert(action.dropped.begin(), action.dropped.end());
  }
}

void Simulation::give(int block, const Grant& grant) {
  forget_beside(block);
  const BlockPlan& mine = by_block(plan(grant.phase).blocks, block);
  if (mine.seating.chunks > 1) return give_shared(block, grant);
  if (mine.in_flight == 0) return extend(block, actions_of(mine, grant));
  Lane& lane = by_block(lanes_, block);
  if (!lane.chooser) lane.chooser.emplace(phases_of(plans_, block));
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
  extend(block, mine);
}

int Simulation::executor_of(int block) const {
  return sluice::executor_of(plans_.front(), block);
}

std::vector<int> Simulation::of_same_executor(int block) const {
  return seats_beside(plans_.front(), block);
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

Simulation::Direction& Simulation::channel(const Transfer& transfer) {
  return by_block(transfer.goes_up() ? up_ : down_, link_of(transfer));
}

const Simulation::Direction& Simulation::channel(
    const Transfer& transfer) const {
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

std::optional<std::int64_t> Simulation::stage_of(int block) const {
  const Lane& lane = by_block(lanes_, block);
  if (lane.actions.empty()) return std::nullopt;
  const Action& action = lane.actions.front();
  const RunPlan& now = plan(action.phase);
  if (now.barrier == Barrier::none) return std::nullopt;
  if (!row_of(action.op).is_training)
    return std::nullopt;  // the turns before it are done
  const bool is_second =
      now.barrier == Barrier::play_and_replay &&
      part_of(by_block(now.blocks, block), action) == TurnPart::rest;
  return action.phase * kStagesOfPhase + 2 * action.turn + (is_second ? 1 : 0);
}

int Simulation::behind(int block) const {
  const std::optional<std::int64_t> mine = stage_of(block);
  if (!mine || *mine <= stage_) return 0;
  for (int other = 1; other <= std::ssize(lanes_); ++other)
    if (stage_of(other).value_or(*mine) < *mine) return other;
  return 0;
}

const RunPlan& Simulation::plan_of(const Lane& lane) const {
  return plan(lane.actions.front().phase);
}

const std::vector<double>* Simulation::cores_of(int block) const {
  const std::optional<std::size_t> core = by_block(core_, block);
  return core ? &cores_[*core] : nullptr;
}

/// Replicas that wait for nobody: of two that could start at once, the one in
/// the earlier turn does.
std::int64_t Simulation::turn_in_ties(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  const bool is_free = by_block(plan_of(lane).blocks, seat).exchange.in_memory;
  return is_free ? lane.actions.front().turn : 0;
}

const Simulation::Outlook& Simulation::outlook_of(int block) {
  Outlook& outlook = by_block(outlooks_, block);
  if (std::exchange(outlook.is_known, true)) return outlook;
  if (!is_local_) unknown_.clear();  // nobody asks for the line
  outlook.ready = ready_at(block);
  outlook.start = start_of(block, outlook.ready);
  outlook.turn = outlook.start ? turn_in_ties(block) : 0;
  return outlook;
}

void Simulation::forget(int block) {
  if (block < 1 || block > std::ssize(outlooks_)) return;
  Outlook& outlook = by_block(outlooks_, block);
  if (!std::exchange(outlook.is_known, false)) return;
  unknown_.push_back(block);
  if (outlook.start)
    line_.erase({*outlook.start, *outlook.ready, outlook.turn, block});
}

/// More may be done at the block, and so for its executor.
void Simulation::forget_beside(int block) {
  for (const int each : of_same_executor(block)) forget(each);
}

void Simulation::forget_all() {
  for (int seat = 1; seat <= std::ssize(outlooks_); ++seat) forget(seat);
}

std::pair<int, double> Simulation::first_in_line() {
  for (const int seat : std::exchange(unknown_, {})) {
    const Outlook& outlook = outlook_of(seat);
    if (outlook.start)
      line_.insert({*outlook.start, *outlook.ready, outlook.turn, seat});
  }
  if (line_.empty()) return {0, 0};
  const auto& [start, ready, turn, seat] = *line_.begin();
  return {seat, start};
}

std::pair<int, double> Simulation::next_seat() {
  if (is_local_) return first_in_line();
  int chosen = 0;
  double earliest = std::numeric_limits<double>::infinity();
  for (int block = 1; block <= std::ssize(lanes_); ++block) {
    choose(block);
    const std::optional<double> start = outlook_of(block).start;
    if (start && (*start < earliest ||
                  (*start == earliest && comes_first(block, chosen)))) {
      earliest = *start;
      chosen = block;
    }
  }
  return {chosen, earliest};
}

void Simulation::forget_after(int block) {
  if (!is_local_) return forget_all();
  for (const int each : of_same_executor(block))
    for (const int near : {each - 1, each, each + 1}) forget(near);
}

std::optional<double> Simulation::start_of(int block,
                                           std::optional<double> ready) const {
  const std::vector<double>* cores = cores_of(block);
  if (!ready || cores == nullptr) return ready;
  return std::max(*ready, *std::min_element(cores->begin(), cores->end()));
}

void Simulation::occupy(int block, double end) {
  const std::optional<std::size_t> core = by_block(core_, block);
  if (!core) return;
  std::vector<double>& cores = cores_[*core];
  *std::min_element(cores.begin(), cores.end()) = end;
}

bool Simulation::comes_first(int block, int other) const {
  const Outlook& of_mine = by_block(outlooks_, block);
  const Outlook& of_other = by_block(outlooks_, other);
  const double mine = of_mine.ready.value_or(0);
  const double its = of_other.ready.value_or(0);
  if (mine != its) return mine < its;
  if (of_mine.turn != of_other.turn) return of_mine.turn < of_other.turn;
  return is_further_behind(block, other);
}

std::optional<double> Simulation::ready_at(int block) const {
  const Lane& lane = by_block(lanes_, block);
  if (lane.actions.empty() || !lane.ledger.may(lane.actions.front()))
    return std::nullopt;
  if (!is_its_turn(block) || behind(block) != 0) return std::nullopt;
  double start = lane.clock;
  if (const auto stage = stage_of(block))
    start = std::max(start, *stage > stage_ ? latest_end_ : stage_start_);
  const std::optional<double> input = input_since(block);
  if (!input) return std::nullopt;
  start = std::max(start, *input);
  const std::optional<double> settled = settled_since(block);
  if (!settled) return std::nullopt;
  start = std::max(start, *settled);
  const std::optional<double> rested = rested_since(block);
  if (!rested) return std::nullopt;
  start = std::max(start, *rested);
  for (const Transfer& need :
       needs_of(plan_of(lane), block, lane.actions.front())) {
    const Queued* head = head_of(channel(need), need);
    if (head == nullptr || head->transfer != need) return std::nullopt;
    start = std::max(start, head->arrival);
  }
  for (const Transfer& yield :
       yields_of(plan_of(lane), block, lane.actions.front())) {
    const std::optional<double> room = room_for(yield);
    if (!room) return std::nullopt;
    start = std::max(start, *room);
  }
  return start;
}

std::optional<double> Simulation::input_since(int block) const {
  const Lane& lane = by_block(lanes_, block);
  const bool reads_buffer =
      by_block(plan_of(lane).blocks, block).inbox_below.buffer &&
      lane.actions.front().op == Op::forward;
  if (!reads_buffer) return 0;
  const Direction& below = by_block(up_, block - 1);
  if (lane.actions.front().arrived > 0)
    return told_input_since(below, lane.actions.front());
  if (!below.buffer->empty()) return 0;
  if (below.queue.empty() ||
      below.queue.front().transfer.kind != MessageKind::activation)
    return std::nullopt;
  return below.queue.front().arrival;
}

std::optional<double> Simulation::told_input_since(const Direction& below,
                                                   const Action& action) const {
  const std::int64_t missing = action.arrived - below.buffer->written();
  if (missing < 0 || missing > std::ssize(below.queue)) return std::nullopt;
  if (missing == 0 && below.buffer->empty()) return std::nullopt;
  if (missing == 0) return 0;
  const Queued& last = below.queue.at(static_cast<std::size_t>(missing) - 1);
  if (last.transfer.kind != MessageKind::activation) return std::nullopt;
  return last.arrival;
}

const Simulation::Queued* Simulation::head_of(const Direction& from,
                                              const Transfer& wanted) {
  for (const Queued& queued : from.queue) {
    // On its way into the buffer.
    const bool passes = from.buffer &&
                        queued.transfer.kind == MessageKind::activation &&
                        wanted.kind != MessageKind::activation;
    if (!passes) return &queued;
  }
  return nullptr;
}

std::optional<double> Simulation::room_for(const Transfer& sent) const {
  const Direction& to = channel(sent);
  // There was room for what is told; and what may be dropped needs none.
  if (is_told(sent.from) && (to.buffer || to.waiting)) return 0;
  if (to.waiting && sent.kind == MessageKind::activation) return 0;
  if (to.waiting && !to.waiting->empty()) return std::nullopt;
  if (to.queue.size() < to.capacity) return to.room_since;
  const Queued& first = to.queue.front();
  const bool moves_on = to.buffer && to.buffer->has_room() &&
                        first.transfer.kind == MessageKind::activation;
  if (!moves_on) return std::nullopt;
  return std::max({to.room_since, first.arrival, to.made_room});
}

void Simulation::choose(int block) {
  Lane& lane = by_block(lanes_, block);
  if (!lane.chooser) return;
  if (block > 1 && !by_block(up_, block - 1).queue.empty()) {
    const Transfer& first = by_block(up_, block - 1).queue.front().transfer;
    lane.chooser->see({first.kind, first.batch});
  }
  lane.actions.clear();
  const std::vector<Action> choices = lane.chooser->choices(lane.ledger);
  if (choices.empty()) return;
  Action best = choices.front();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::pair<double, double> earliest{kNever, kNever};
  for (const Action& choice : choices) {
    lane.actions = {choice};
    const std::optional<double> start = start_of(block, ready_at(block));
    if (!start) continue;
    const std::pair<double, double> rank{*start, arrived_at(block)};
    if (rank >= earliest) continue;
    earliest = rank;
    best = choice;
  }
  lane.actions = {best};
}

double Simulation::arrived_at(int block) const {
  const Lane& lane = by_block(lanes_, block);
  if (!lane.chooser->goes_by_arrival()) return 0;
  const Action& action = lane.actions.front();
  const std::vector<Transfer> needs = needs_of(plan_of(lane), block, action);
  if (needs.empty() && action.op == Op::forward)
    return lane.admissions.next(lane.chooser->room(lane.ledger));
  double last = 0;
  for (const Transfer& need : needs)
    last = std::max(last, head_of(channel(need), need)->arrival);
  return last;
}

bool Simulation::is_further_behind(int block, int other) const {
  const auto& mine = by_block(lanes_, block).chooser;
  const auto& its = by_block(lanes_, other).chooser;
  return mine && its && mine->turns() < its->turns();
}

/// What lies in the channel before an evaluation goes into the buffer, so that
/// the evaluation, and what waits at the sender, finds room. Returns whether
/// anything did.
bool Simulation::take_before_evaluation() {
  for (int block = 2; block <= std::ssize(lanes_); ++block) {
    const Lane& lane = by_block(lanes_, block);
    if (!by_block(plans_.front().blocks, block).inbox_below.buffer) continue;
    const Direction& below = by_block(up_, block - 1);
    const bool waits = below.buffer && !below.queue.empty() &&
                       !lane.actions.empty() &&
                       lane.actions.front().op == Op::evaluate;
    if (!waits) continue;
    const Queued& first = below.queue.front();
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

  const std::optional<std::int64_t> stage = stage_of(chosen);
  if (stage && *stage > stage_) {
    stage_ = *stage;
    stage_start_ = latest_end_;
  }
  Lane& lane = by_block(lanes_, chosen);
  Action action = lane.actions.front();
  read_buffer(chosen, earliest, action);
  take_merged(chosen, earliest, action);
  lane.actions.pop_front();
  const double end = end_of(chosen, action, earliest);
  for (const int each : of_same_executor(chosen))
    by_block(lanes_, each).clock = end;
  if (!lane.places.empty()) {
    lane.places.pop_front();
    ++done_[static_cast<std::size_t>(executor_of(chosen))];
  }
  if (end > earliest) occupy(chosen, end);
  if (stage) latest_end_ = std::max(latest_end_, end);
  lane.ledger.did(by_block(plan(action.phase).blocks, chosen), action);
  meet(chosen, action, end);
  rest(chosen, action, end);
  if (lane.chooser) {
    lane.chooser->did(action);
    lane.admissions.did(action, lane.chooser->room(lane.ledger), end);
  }
  for (const Transfer& need : needs_of(plan(action.phase), chosen, action)) {
    Direction& from = channel(need);
    const bool was_full = from.queue.size() == from.capacity;
    pop(from, earliest);
    if (was_full) from.room_since = earliest;
  }
  forget_after(chosen);
  double arrival = 0;
  for (const Transfer& yield : yields_of(plan(action.phase), chosen, action)) {
    send(yield, end, action);
    const auto& queue = channel(yield).queue;
    if (!queue.empty()) arrival = queue.back().arrival;
  }
  return TimedAction{chosen, action, earliest, end, arrival};
}

void Simulation::send(const Transfer& transfer, double time, Action& action) {
  Direction& to = channel(transfer);
  const bool may_wait = to.waiting && !is_told(transfer.from) &&
                        transfer.kind == MessageKind::activation;
  if (transfer.kind == MessageKind::activation &&
      to.dropped.contains(transfer.batch))
    return;
  const bool must_wait =
      may_wait && (to.queue.size() >= to.capacity || !to.waiting->empty());
  if (!must_wait) return put(to, transfer, time);
  if (const auto lost = to.waiting->enter({transfer, time}))
    action.dropped.push_back(lost->transfer.batch);
}

/// The first message of a channel is taken: one that waits for room may go.
void Simulation::pop(Direction& from, double now) {
  from.queue.pop_front();
  if (!from.waiting || from.waiting->empty()) return;
  const Queued next = from.waiting->leave();
  put(from, next.transfer, std::max(next.arrival, now));
}

void Simulation::put(Direction& to, const Transfer& transfer, double time) {
  const Transit transit = transit_of(costs_, transfer);
  to.free_since = std::max(time, to.free_since) + transit.occupies;
  double arrival = to.free_since + transit.latency;
  // Jitter never reorders messages of one channel.
  if (!to.queue.empty()) arrival = std::max(arrival, to.queue.back().arrival);
  to.queue.push_back({transfer, arrival});
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
