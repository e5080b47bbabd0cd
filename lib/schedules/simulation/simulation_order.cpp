// Which of the simulated blocks acts next, and when.
#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/op_table.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {
namespace {

/// A number above that of the stages of any phase of a timetable.
constexpr std::int64_t kStagesOfPhase = std::int64_t{1} << 42;

}  // namespace

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

bool Simulation::is_anyone_behind(std::int64_t stage) const {
  return stage > stage_ && !stages_.empty() && stages_.begin()->first < stage;
}

int Simulation::behind(int block) const {
  const std::optional<std::int64_t> mine = stage_of(block);
  if (!mine || !is_anyone_behind(*mine)) return 0;
  for (int other = 1; other <= std::ssize(lanes_); ++other)
    if (stage_of(other).value_or(*mine) < *mine) return other;
  return 0;
}

void Simulation::count_stage(int seat) {
  if (!has_barriers_) return;
  std::optional<std::int64_t>& counted = by_block(lanes_, seat).stage;
  const std::optional<std::int64_t> now = stage_of(seat);
  if (counted == now) return;
  const auto first = [&] {
    return stages_.empty() ? std::nullopt
                           : std::optional(stages_.begin()->first);
  };
  const std::optional<std::int64_t> first_before = first();
  if (now) ++stages_[*now];
  if (counted && --stages_[*counted] == 0) stages_.erase(*counted);
  counted = now;
  if (first() != first_before) forget_all();
}

const std::vector<double>* Simulation::cores_of(int block) const {
  const std::optional<std::size_t> core = by_block(core_, block);
  return core ? &cores_[*core] : nullptr;
}

/// Rank among replicas that share weights and could start at the same time: the
/// one in the earlier turn starts first.
std::int64_t Simulation::turn_in_ties(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  const bool is_free = by_block(plan_of(lane).blocks, seat).exchange.in_memory;
  return is_free ? lane.actions.front().turn : 0;
}

void Simulation::set_next(Lane& lane, const Action& action) {
  lane.actions.assign(1, action);
  lane.transfers.is_known = false;
}

/// Finds out when the seat can act.
void Simulation::look_ahead(int seat) {
  Outlook& outlook = by_block(outlooks_, seat);
  outlook.is_known = true;
  choose(seat);
  const std::optional<double> ready = ready_at(seat);
  if (!ready) return;
  const auto& chooser = by_block(lanes_, seat).chooser;
  lines_[by_block(core_, seat).value_or(cores_.size())].push(
      {*ready, turn_in_ties(seat), chooser ? chooser->turns() : 0, seat,
       outlook.version});
}

/// From the lowest seat up: what a seat chooses may depend on the one below it.
void Simulation::look_at_all_unknown() {
  while (!unknown_.empty()) {
    std::pop_heap(unknown_.begin(), unknown_.end(), std::greater<>());
    const int seat = unknown_.back();
    unknown_.pop_back();
    look_ahead(seat);
  }
}

void Simulation::forget(int block) {
  if (block < 1 || block > std::ssize(outlooks_)) return;
  Outlook& outlook = by_block(outlooks_, block);
  if (!std::exchange(outlook.is_known, false)) return;
  ++outlook.version;
  unknown_.push_back(block);
  std::push_heap(unknown_.begin(), unknown_.end(), std::greater<>());
}

/// Forgets the outlooks of the block and of others of its executor: they may be
/// able to do more now.
void Simulation::forget_beside(int block) {
  for (const int each : of_same_executor(block)) forget(each);
}

void Simulation::forget_all() {
  for (int seat = 1; seat <= std::ssize(outlooks_); ++seat) forget(seat);
}

/// Forgets the outlooks of those to which the next batch may be dealt.
void Simulation::forget_dealt() {
  for (const int seat : dealt_to_) forget(seat);
}

const Simulation::Place* Simulation::first_of(Line& line) {
  while (!line.empty()) {
    const Place& first = line.top();
    const Outlook& outlook = by_block(outlooks_, first.seat);
    if (outlook.is_known && outlook.version == first.version) return &first;
    line.pop();
  }
  return nullptr;
}

/// Seats that take the same cores start in the order in which they are ready,
/// whenever a core is free.
std::pair<int, double> Simulation::next_seat() {
  look_at_all_unknown();
  const Place* chosen = nullptr;
  double earliest = std::numeric_limits<double>::infinity();
  for (Line& line : lines_) {
    const Place* first = first_of(line);
    if (first == nullptr) continue;
    const double start = *start_of(first->seat, first->ready);
    if (chosen != nullptr &&
        std::tie(earliest, *chosen) < std::tie(start, *first))
      continue;
    earliest = start;
    chosen = first;
  }
  return chosen == nullptr ? std::pair(0, 0.)
                           : std::pair(chosen->seat, earliest);
}

void Simulation::forget_after(int seat) {
  if (!is_local_) return forget_all();
  forget_beside(seat);
  const NextTransfers& done = by_block(lanes_, seat).transfers;
  for (const Transfer& need : done.needs) forget(need.from);
  for (const Transfer& yield : done.yields) forget(yield.to);
  if (is_dealt_) forget(seat + 1);
}

std::optional<double> Simulation::start_of(int block,
                                           std::optional<double> ready) const {
  const std::vector<double>* cores = cores_of(block);
  if (!ready || cores == nullptr) return ready;
  return std::max(*ready, *std::min_element(cores->begin(), cores->end()));
}

const Simulation::NextTransfers& Simulation::transfers_of(int seat) {
  Lane& lane = by_block(lanes_, seat);
  NextTransfers& next = lane.transfers;
  if (std::exchange(next.is_known, true)) return next;
  const RunPlan& now = plan_of(lane);
  next.needs = needs_of(now, seat, lane.actions.front());
  next.yields = yields_of(now, seat, lane.actions.front());
  return next;
}

std::optional<double> Simulation::ready_at(int block) {
  const Lane& lane = by_block(lanes_, block);
  if (lane.actions.empty() || !lane.ledger.may(lane.actions.front()))
    return std::nullopt;
  if (!is_its_turn(block) || !is_entry_due(block) || !are_losses_over(block))
    return std::nullopt;
  double start = lane.clock;
  if (lane.stage) {
    if (is_anyone_behind(*lane.stage)) return std::nullopt;
    start = std::max(start, *lane.stage > stage_ ? latest_end_ : stage_start_);
  }
  const std::optional<double> input = input_since(block);
  if (!input) return std::nullopt;
  start = std::max(start, *input);
  const std::optional<double> settled = settled_since(block);
  if (!settled) return std::nullopt;
  start = std::max(start, *settled);
  const std::optional<double> rested = rested_since(block);
  if (!rested) return std::nullopt;
  start = std::max(start, *rested);
  const NextTransfers& next = transfers_of(block);
  for (const Transfer& need : next.needs) {
    const SimulatedChannel::QueuedTransfer* head = channel(need).head_for(need);
    if (head == nullptr || head->transfer != need) return std::nullopt;
    start = std::max(start, head->arrival);
  }
  for (const Transfer& yield : next.yields) {
    const std::optional<double> room =
        channel(yield).room_for(yield, is_told(yield.from));
    if (!room) return std::nullopt;
    start = std::max(start, *room);
  }
  return start;
}

std::optional<double> Simulation::input_since(int block) const {
  const Lane& lane = by_block(lanes_, block);
  const bool reads_buffer =
      by_block(plan_of(lane).blocks, block).free.inbox_below.buffer &&
      lane.actions.front().op == Op::forward;
  if (!reads_buffer) return 0;
  const SimulatedChannel& below = by_block(up_, block - 1);
  if (lane.actions.front().arrived > 0)
    return below.written_since(lane.actions.front().arrived);
  if (!below.buffer->empty()) return 0;
  if (below.queue.empty() ||
      below.queue.front().transfer.kind != MessageKind::activation)
    return std::nullopt;
  return below.queue.front().arrival;
}

void Simulation::choose(int block) {
  Lane& lane = by_block(lanes_, block);
  if (!lane.chooser) return;
  const std::int64_t next_before = lane.chooser->next();
  const BlockPlan& mine = by_block(plans_.front().blocks, block);
  if (is_dealt_to(block)) lane.chooser->see_deal(dealer_.next());
  if (block > 1 && !by_block(up_, block - 1).queue.empty()) {
    const Transfer& first = by_block(up_, block - 1).queue.front().transfer;
    lane.chooser->see({first.kind, first.batch});
  } else if (mine.block > 1 && is_dealt(block)) {
    // What the block below has left out never comes; real blocks say so.
    lane.chooser->see_end(by_block(lanes_, block - 1).chooser->next());
  }
  // The block above sees it.
  if (is_dealt_ && lane.chooser->next() != next_before) forget(block + 1);
  lane.actions.clear();
  const std::vector<Action> choices = lane.chooser->choices(lane.ledger);
  if (choices.empty()) return;
  Action best = choices.front();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::pair<double, double> earliest{kNever, kNever};
  double latest = -kNever;
  for (const Action& choice : choices) {
    set_next(lane, choice);
    const std::optional<double> start = start_of(block, ready_at(block));
    if (!start) continue;
    latest = std::max(latest, *start);
    const std::pair<double, double> rank{*start, arrived_at(block)};
    if (rank >= earliest) continue;
    earliest = rank;
    best = choice;
  }
  set_next(lane, best);
  lane.is_choice_of_time = latest > earliest.first;
}

bool Simulation::is_dealt(int seat) const {
  return by_block(plans_.front().blocks, seat).micro_batches.by_arrival;
}

bool Simulation::is_dealt_to(int seat) const {
  return is_dealt(seat) && by_block(plans_.front().blocks, seat).block == 1;
}

void Simulation::take_deal(int seat, const Action& forward) {
  const int replica = by_block(plans_.front().blocks, seat).replica;
  const auto batch = dealer_.deal(replica, forward.batch + 1);
  SLUICE_CHECK(batch == forward.batch, "batch {} isn't the next that is dealt",
               forward.batch);
}

double Simulation::arrived_at(int block) {
  const Lane& lane = by_block(lanes_, block);
  if (!lane.chooser->goes_by_arrival()) return 0;
  const Action& action = lane.actions.front();
  const std::vector<Transfer>& needs = transfers_of(block).needs;
  if (needs.empty() && action.op == Op::forward)
    return lane.admissions.next(lane.chooser->room(lane.ledger));
  double last = 0;
  for (const Transfer& need : needs)
    last = std::max(last, channel(need).head_for(need)->arrival);
  return last;
}

}  // namespace sluice
