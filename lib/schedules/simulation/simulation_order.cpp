// Which of the simulated blocks acts next, and when.
#include <algorithm>
#include <limits>
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

int Simulation::behind(int block) const {
  const std::optional<std::int64_t> mine = stage_of(block);
  if (!mine || *mine <= stage_) return 0;
  for (int other = 1; other <= std::ssize(lanes_); ++other)
    if (stage_of(other).value_or(*mine) < *mine) return other;
  return 0;
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

const Simulation::Outlook& Simulation::outlook_of(int block) {
  Outlook& outlook = by_block(outlooks_, block);
  if (std::exchange(outlook.is_known, true)) return outlook;
  if (!is_local_) unknown_.clear();  // not read where outlooks aren't local
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

/// Forgets the outlooks of the block and of others of its executor: they may be
/// able to do more now.
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
    const SimulatedChannel::QueuedTransfer* head = channel(need).head_for(need);
    if (head == nullptr || head->transfer != need) return std::nullopt;
    start = std::max(start, head->arrival);
  }
  for (const Transfer& yield :
       yields_of(plan_of(lane), block, lane.actions.front())) {
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
      by_block(plan_of(lane).blocks, block).inbox_below.buffer &&
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
  if (is_dealt_to(block)) lane.chooser->see_deal(dealer_.next());
  if (block > 1 && !by_block(up_, block - 1).queue.empty()) {
    const Transfer& first = by_block(up_, block - 1).queue.front().transfer;
    lane.chooser->see({first.kind, first.batch});
  } else if (block > 1 && is_dealt(block)) {
    // What the block below has left out never comes; real blocks say so.
    lane.chooser->see_end(by_block(lanes_, block - 1).chooser->next());
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

bool Simulation::is_dealt(int seat) const {
  return by_block(plans_.front().blocks, seat).micro_batches.by_arrival;
}

bool Simulation::is_dealt_to(int seat) const {
  return is_dealt(seat) && by_block(plans_.front().blocks, seat).block == 1;
}

void Simulation::take_deal(const Action& forward) {
  constexpr int kAny = 1;  // no replica is lost here
  const auto batch = dealer_.deal(kAny, forward.batch + 1);
  SLUICE_CHECK(batch == forward.batch, "batch {} isn't the next that is dealt",
               forward.batch);
  dealer_.took(kAny, *batch);
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
    last = std::max(last, channel(need).head_for(need)->arrival);
  return last;
}

bool Simulation::is_further_behind(int block, int other) const {
  const auto& mine = by_block(lanes_, block).chooser;
  const auto& its = by_block(lanes_, other).chooser;
  return mine && its && mine->turns() < its->turns();
}

}  // namespace sluice
