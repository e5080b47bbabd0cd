#include "lib/schedules/orders/free_running.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/combinations.h"
#include "lib/schedules/plan/program.h"

namespace sluice {

namespace {

/// Batches that wait for something.
std::int64_t waiting(const Ledger& ledger) {
  return std::ssize(ledger.with(Mark::in_flight)) +
         std::ssize(ledger.with(Mark::lesson));
}

}  // namespace

FreeRunning::FreeRunning(std::vector<BlockPlan> phases)
    : phases_(std::move(phases)) {
  for (const BlockPlan& phase : phases_)
    SLUICE_CHECK(phase.free.in_flight > 0, "block {} doesn't run free",
                 phase.block);
}

const BlockPlan& FreeRunning::plan() const {
  return phases_.at(static_cast<std::size_t>(grant_.phase));
}

void FreeRunning::give(const Grant& grant) {
  if (!std::exchange(has_begun_, true)) {
    grant_ = grant;
    next_ = plan().micro_batches.first_of(grant.first_turn);
    turn_ = grant.first_turn - 1;
    forwards_ = updates_;  // of a run that goes on
    if (grant.joins) due_ = {entry(Op::exchange), entry(Op::settle)};
  }
  grant_ = grant;
  is_told_end_ = false;
  SLUICE_CHECK(plan().micro_batches.first_of(grant.first_turn) == next_,
               "block {}: turns from {} on are granted after batch {}",
               plan().block, grant.first_turn, next_);
  evaluated_ = 0;
  saved_ = !grant.checkpoint;
  has_agreed_ = !plan().exchange.agrees ||
                (grant.evaluation_batches == 0 && !grant.checkpoint);
}

bool FreeRunning::turns_are_over(const Ledger& ledger) const {
  if (next_ < end() || is_due(ledger)) return false;
  // A backward that waits for no gradient from above belongs to the turn of its
  // forward.
  if (!plan().gradients.from_above && !ledger.with(Mark::in_flight).empty())
    return false;
  return waiting(ledger) < (grant_.drain ? 1 : plan().free.in_flight);
}

/// A window that was incomplete when the pipe was drained is not applied.
bool FreeRunning::is_due(const Ledger& ledger) const {
  const std::set<BatchRound>& summed = ledger.with(Mark::summed);
  if (std::ssize(summed) < plan().accumulate) return false;
  // A window of one batch is complete; that may be one of an earlier grant,
  // dealt again.
  if (plan().micro_batches.by_arrival) return true;
  const std::int64_t first = plan().micro_batches.first_of(grant_.first_batch);
  return std::distance(summed.lower_bound({first, 0}), summed.end()) >=
         plan().accumulate;
}

Action FreeRunning::action(Op op, std::int64_t batch) const {
  return {op, batch, turn_, grant_.phase};
}

std::int64_t FreeRunning::end() const {
  return plan().micro_batches.first_of(grant_.end_turn);
}

std::vector<Action> FreeRunning::actions_of_update(std::int64_t batch) const {
  const Action update = action(Op::update, batch);
  const ReplicaExchange& exchange = plan().exchange;
  const std::int64_t updates =
      plan().micro_batches.by_arrival
          ? updates_ + 1
          : (batch - grant_.first_batch + 1) / plan().accumulate;
  const bool is_exchanged = exchange.what != ExchangedTensors::nothing &&
                            (updates + exchange.offset) % exchange.every == 0;
  if (!is_exchanged) return {update};
  std::vector<Action> all;
  const auto add = [&](Op op, ExchangeKind kind) {
    all.push_back(action(op, batch));
    all.back().kind = kind;
  };
  add(Op::exchange, exchange.of_window());
  add(Op::settle, exchange.of_window());
  if (exchange.quorum.is_there()) add(Op::settle, ExchangeKind::pull);
  all.insert(
      exchange.what == ExchangedTensors::weights ? all.begin() : all.end(),
      update);
  return all;
}

Action FreeRunning::agreement(Op op) const {
  Action agreed = action(op, grant_.end_turn);
  agreed.turn = grant_.end_turn;
  agreed.kind = ExchangeKind::agreement;
  return agreed;
}

Action FreeRunning::entry(Op op) const {
  Action entered = action(op, grant_.first_turn);
  entered.kind = ExchangeKind::entry;
  return entered;
}

std::vector<Action> FreeRunning::after_turns() const {
  if (!has_agreed_) return {agreement(Op::exchange)};
  Action last = action(Op::evaluate, evaluated_);
  last.turn = grant_.end_turn;
  if (plan().replica == 1 && evaluated_ < grant_.evaluation_batches)
    return {last};
  last.op = Op::save;
  last.batch = grant_.end_turn;
  return saved_ ? std::vector<Action>{} : std::vector<Action>{last};
}

std::vector<Action> FreeRunning::overdue(const Ledger& ledger) const {
  using Waits = std::pair<Mark, Op>;
  constexpr Waits kBackward{Mark::in_flight, Op::backward};
  constexpr Waits kForLesson{Mark::lesson, Op::learn};
  const bool has_target = plan().lower.learns && plan().gradients.from_above;
  std::vector<Action> all;
  for (const auto& [mark, op] : has_target ? std::array{kForLesson, kBackward}
                                           : std::array{kBackward, kForLesson})
    for (const std::int64_t batch : oldest(ledger.with(mark)))
      all.push_back(action(op, batch));
  return all;
}

/// A checkpoint doesn't say in which order its batches were begun: what comes
/// from above does.
std::vector<std::int64_t> FreeRunning::oldest(
    const std::set<BatchRound>& marked) const {
  if (marked.empty()) return {};
  if (!plan().micro_batches.by_arrival) return {marked.begin()->batch};
  std::vector<std::int64_t> of_checkpoint;
  for (const BatchRound& visit : marked)
    if (std::find(begun_.begin(), begun_.end(), visit.batch) == begun_.end())
      of_checkpoint.push_back(visit.batch);
  if (!of_checkpoint.empty()) return of_checkpoint;
  return {*std::find_if(begun_.begin(), begun_.end(), [&](std::int64_t batch) {
    const auto found = marked.lower_bound({batch, 0});
    return found != marked.end() && found->batch == batch;
  })};
}

std::vector<Action> FreeRunning::choices(const Ledger& ledger) const {
  if (!has_begun_) return {};
  if (!due_.empty()) return {due_.front()};
  if (is_due(ledger))
    return {
        actions_of_update(ledger.with(Mark::summed).rbegin()->batch).front()};
  if (turns_are_over(ledger)) return after_turns();
  std::vector<Action> all = overdue(ledger);
  if (next_ < end() && room(ledger) > 0)
    all.push_back({Op::forward, next_, plan().micro_batches.turn_of(next_),
                   grant_.phase});
  return all;
}

bool FreeRunning::goes_by_arrival() const {
  return plan().free.priority == Priority::arrival;
}

std::int64_t FreeRunning::room(const Ledger& ledger) const {
  return plan().free.in_flight - waiting(ledger);
}

void FreeRunning::did(const Action& action) {
  if (action.op == Op::forward) {
    turn_ = plan().micro_batches.turn_of(action.batch);
    next_ = action.batch + 1;
    ++forwards_;
    begin_batch(action.batch);
  }
  if (action.op == Op::settle && !action.dropped.empty())
    next_ = action.dropped.back() + 1;
  if (!due_.empty()) {
    due_.pop_front();
  } else if (action.kind == ExchangeKind::agreement &&
             action.op == Op::exchange) {
    due_ = {agreement(Op::settle)};
    has_agreed_ = true;
  } else if (action.op == Op::exchange || action.op == Op::update) {
    const std::vector<Action> all = actions_of_update(action.batch);
    due_.assign(all.begin() + 1, all.end());
  }
  if (action.op == Op::update) ++updates_;
  if (action.op == Op::evaluate) ++evaluated_;
  if (action.op == Op::save) saved_ = true;
}

/// Batches go through a block in order: those that wait are the last ones.
void FreeRunning::begin_batch(std::int64_t batch) {
  if (!plan().micro_batches.by_arrival) return;
  begun_.push_back(batch);
  if (std::ssize(begun_) > plan().free.in_flight) begun_.pop_front();
}

void FreeRunning::see(const MessageHead& first) {
  if (!plan().free.has_gaps) return;
  // Actions that follow the turns of a grant, or belong to the next one, lie
  // behind all batches of this one.
  const bool says_batch = first.kind == MessageKind::activation ||
                          first.kind == MessageKind::reached;
  if (plan().micro_batches.by_arrival && first.kind == MessageKind::activation)
    return see_dealt_below(first.batch);
  is_told_end_ = is_told_end_ || first.kind == MessageKind::reached;
  see_end(says_batch ? first.batch : end());
}

/// A batch that is dealt again has a lower number than those before it. What
/// comes after the end of the grant is of the next one.
void FreeRunning::see_dealt_below(std::int64_t batch) {
  if (!is_told_end_) next_ = std::min(batch, end());
}

void FreeRunning::see_end(std::int64_t end) {
  next_ = std::max(next_, std::min(end, this->end()));
}

void FreeRunning::see_deal(std::optional<std::int64_t> batch) {
  next_ = is_told_end_ ? end() : std::min(batch.value_or(end()), end());
}

std::vector<std::int64_t> FreeRunning::behind(std::int64_t turn) const {
  std::vector<std::int64_t> all;
  for (std::int64_t each = next_; each <= turn && each < end(); ++each)
    all.push_back(each);
  return all;
}

bool runs_free(const RunPlan& plan) {
  return plan.blocks.front().free.in_flight > 0;
}

bool can_be_continued(const RunPlan& plan) {
  return std::none_of(
      plan.blocks.begin(), plan.blocks.end(),
      [](const BlockPlan& block) { return !block.free.has_plain_inboxes(); });
}

std::vector<BlockPlan> phases_of(const Plans& plans, int block) {
  std::vector<BlockPlan> phases;
  phases.reserve(plans.size());
  for (const RunPlan& plan : plans)
    phases.push_back(by_block(plan.blocks, block));
  return phases;
}

namespace {

/// Visits of batches of which a block waits for the gradient from above.
std::set<BatchRound> awaited(const BlockPlan& plan, const Ledger& ledger) {
  if (!gradient_taken_after(plan)) return {};
  std::set<BatchRound> batches = ledger.with(Mark::in_flight);
  if (!plan.gradients.from_above)
    batches.merge(std::set(ledger.with(Mark::lesson)));
  return batches;
}

}  // namespace

std::vector<Transfer> under_way(const RunPlan& plan,
                                const std::vector<Ledger>& ledgers) {
  std::vector<Transfer> sent;
  for (std::size_t k = 0; k + 1 < plan.blocks.size(); ++k) {
    const BlockPlan& below = plan.blocks[k];
    const auto& not_yet = ledgers.at(k + 1).with(Mark::in_flight);
    for (const BatchRound& visit : awaited(below, ledgers.at(k)))
      if (!not_yet.contains(visit))
        sent.push_back({MessageKind::gradient, below.seat() + 1, below.seat(),
                        visit.batch, visit.round});
  }
  return sent;
}

namespace {

/// Whether fewer batches than turns may come through a boundary, of whose lower
/// block that is known.
bool leaves_gaps(const InboxTraits& inbox, bool below) {
  return !inbox.buffer && (below || inbox.drops());
}

/// Whether a block may be ahead of what it waits for. Without a delay the graph
/// of a batch is that of its forward, and it is applied before the next one.
bool may_run_ahead(const BlockPlan& plan) {
  return plan.delay > 0 || (plan.lower.learns && !plan.gradients.from_above);
}

std::int64_t most_in_flight(const BlockPlan& plan, std::int64_t wanted) {
  if (!may_run_ahead(plan)) return 1;
  return wanted > 0 ? wanted : turns_in_flight(plan) + 1;
}

/// A block may have as many in flight as the one that sends it gradients: so at
/// the end of a grant it waits for none that is sent after that grant, and
/// checkpoints of the same turn belong together.
void follow_those_above(RunPlan& plan) {
  for (std::size_t k = plan.blocks.size() - 1; k-- > 0;) {
    BlockPlan& block = plan.blocks[k];
    if (may_run_ahead(block) && gradient_taken_after(block))
      block.free.in_flight =
          std::max(block.free.in_flight, plan.blocks[k + 1].free.in_flight);
  }
}

}  // namespace

RunPlan make_free_plan(const std::vector<Traits>& boundaries,
                       std::int64_t accumulate, std::int64_t in_flight) {
  check_free(boundaries);
  std::vector<Traits> plain = boundaries;
  for (Traits& boundary : plain) boundary.inbox = {};
  RunPlan plan = make_run_plan(plain, false, accumulate);
  for (BlockPlan& block : plan.blocks) {
    block.free.in_flight = most_in_flight(block, in_flight);
    const auto above = static_cast<std::size_t>(block.block) - 1;
    if (above < boundaries.size())
      block.free.inbox_above = boundaries[above].inbox;
    if (block.block == 1) continue;
    block.free.inbox_below = boundaries[above - 1].inbox;
    block.free.has_gaps = leaves_gaps(block.free.inbox_below,
                                      plan.blocks[above - 1].free.has_gaps);
  }
  follow_those_above(plan);
  return plan;
}

}  // namespace sluice
