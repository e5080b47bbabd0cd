#include "lib/schedules/free_running.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"

namespace sluice {

namespace {

/// Batches that wait for something.
std::int64_t waiting(const Ledger& ledger) {
  return std::ssize(ledger.with(Mark::in_flight)) +
         std::ssize(ledger.with(Mark::lesson));
}

}  // namespace

FreeRunning::FreeRunning(BlockPlan plan) : plan_(std::move(plan)) {
  SLUICE_CHECK(plan_.in_flight > 0, "block {} doesn't run free", plan_.block);
}

void FreeRunning::give(const Grant& grant) {
  SLUICE_CHECK(grant.first_turn == next_,
               "block {}: turns from {} on are granted after {}", plan_.block,
               grant.first_turn, next_);
  grant_ = grant;
  evaluated_ = 0;
  saved_ = !grant.checkpoint;
}

bool FreeRunning::turns_are_over(const Ledger& ledger) const {
  if (next_ < grant_.end_turn || is_due(ledger)) return false;
  return waiting(ledger) < (grant_.drain ? 1 : plan_.in_flight);
}

bool FreeRunning::is_due(const Ledger& ledger) const {
  return std::ssize(ledger.with(Mark::summed)) == plan_.accumulate;
}

Action FreeRunning::action(Op op, std::int64_t batch) const {
  return {op, batch, turn_, grant_.phase};
}

std::vector<Action> FreeRunning::choices(const Ledger& ledger) const {
  if (is_due(ledger))
    return {action(Op::update, ledger.with(Mark::summed).rbegin()->batch)};
  if (turns_are_over(ledger)) {
    Action last = action(Op::evaluate, evaluated_);
    last.turn = grant_.end_turn;
    if (evaluated_ < grant_.evaluation_batches) return {last};
    last.op = Op::save;
    last.batch = grant_.end_turn;
    return saved_ ? std::vector<Action>{} : std::vector<Action>{last};
  }
  std::vector<Action> all;
  for (const auto& [mark, op] :
       {std::pair{Mark::in_flight, Op::backward}, {Mark::lesson, Op::learn}})
    if (const auto& batches = ledger.with(mark); !batches.empty())
      all.push_back(action(op, batches.begin()->batch));
  if (next_ < grant_.end_turn && waiting(ledger) < plan_.in_flight)
    all.push_back({Op::forward, next_, next_, grant_.phase});
  return all;
}

void FreeRunning::did(const Action& action) {
  if (action.op == Op::forward) {
    turn_ = action.batch;
    next_ = action.batch + 1;
  }
  if (action.op == Op::evaluate) ++evaluated_;
  if (action.op == Op::save) saved_ = true;
}

void FreeRunning::see(const MessageHead& first) {
  if (!plan_.has_gaps) return;
  // What follows the turns of a grant, and what belongs to the next one, lies
  // behind all batches of this one.
  const std::int64_t batch =
      first.kind == MessageKind::activation ? first.batch : grant_.end_turn;
  next_ = std::max(next_, std::min(batch, grant_.end_turn));
}

bool runs_free(const RunPlan& plan) {
  return plan.blocks.front().in_flight > 0;
}

namespace {

void check_replay(const Traits& boundary, int block) {
  if (!boundary.replay) return;
  if (!boundary.cut || boundary.from_above)
    throw UserError(
        "boundary {}: a buffer lies at a cut from which nothing comes down: "
        "reach = 0, and no head that follows the layer above",
        block);
}

void check_slow_consumer(const Traits& boundary, int block) {
  if (boundary.slow_consumer == SlowConsumer::block) return;
  if (!boundary.cut || boundary.from_above)
    throw UserError(
        "boundary {}: slow_consumer drops activations only at a cut from which "
        "nothing comes down: reach = 0, and no head that follows the layer "
        "above; elsewhere it is 'block'",
        block);
}

/// Whether fewer batches than turns may come through a boundary, of whose lower
/// block that is known.
bool leaves_gaps(const Traits& boundary, bool below, int block) {
  const bool any = below || boundary.slow_consumer != SlowConsumer::block;
  if (!any || !boundary.replay) return any;
  if (boundary.replay->max_reuse >= 0)
    throw UserError(
        "boundary {}: where activations are dropped at or below a buffer, its "
        "block above could run out of inputs: buffer.max_reuse must be -1, or "
        "slow_consumer 'block'",
        block);
  return false;
}

/// Without delay and lesson every batch is applied at once.
std::int64_t most_in_flight(const BlockPlan& plan, std::int64_t wanted) {
  const bool may_choose =
      plan.delay > 0 || (plan.learns && !plan.gradient_from_above);
  return wanted > 0 && may_choose ? wanted : turns_in_flight(plan) + 1;
}

}  // namespace

RunPlan make_free_plan(const std::vector<Traits>& boundaries,
                       std::int64_t accumulate, std::int64_t in_flight) {
  std::vector<Traits> without_buffers = boundaries;
  for (std::size_t k = 0; k < boundaries.size(); ++k) {
    check_replay(boundaries[k], static_cast<int>(k) + 1);
    check_slow_consumer(boundaries[k], static_cast<int>(k) + 1);
    if (boundaries[k].upper == UpperEnd::from_data)
      throw UserError(
          "boundary {}: an unlocked forward needs schedule = 'lockstep'",
          k + 1);
    without_buffers[k].replay.reset();
    without_buffers[k].slow_consumer = SlowConsumer::block;
  }
  RunPlan plan = make_run_plan(without_buffers, false, accumulate);
  for (BlockPlan& block : plan.blocks) {
    block.in_flight = most_in_flight(block, in_flight);
    const auto above = static_cast<std::size_t>(block.block) - 1;
    if (above < boundaries.size())
      block.slow_consumer = boundaries[above].slow_consumer;
    if (block.block == 1) continue;
    const Traits& below = boundaries[above - 1];
    block.replay = below.replay;
    block.has_gaps =
        leaves_gaps(below, plan.blocks[above - 1].has_gaps, block.block - 1);
  }
  return plan;
}

}  // namespace sluice
