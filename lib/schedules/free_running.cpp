#include "lib/schedules/free_running.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"

namespace sluice {

FreeRunning::FreeRunning(BlockPlan plan) : plan_(std::move(plan)) {
  SLUICE_CHECK(plan_.in_flight > 0, "block {} doesn't run free", plan_.block);
}

void FreeRunning::give(const Grant& grant) {
  SLUICE_CHECK(is_done() && grant.first_turn == next_,
               "block {}: turns from {} on are granted after {}", plan_.block,
               grant.first_turn, next_);
  grant_ = grant;
  evaluated_ = 0;
  saved_ = !grant.checkpoint;
}

std::int64_t FreeRunning::waiting() const {
  return std::ssize(flights_) + std::ssize(lessons_);
}

bool FreeRunning::turns_are_over() const {
  if (next_ < grant_.end_turn || due_) return false;
  return waiting() < (grant_.drain ? 1 : plan_.in_flight);
}

Action FreeRunning::action(ActionKind kind, std::int64_t batch) const {
  return {kind, batch, turn_, grant_.phase};
}

std::vector<Action> FreeRunning::choices() const {
  if (due_) return {action(ActionKind::update, *due_)};
  if (turns_are_over()) {
    Action last = action(ActionKind::evaluate, evaluated_);
    last.turn = grant_.end_turn;
    if (evaluated_ < grant_.evaluation_batches) return {last};
    last.kind = ActionKind::checkpoint;
    last.batch = grant_.end_turn;
    return saved_ ? std::vector<Action>{} : std::vector<Action>{last};
  }
  std::vector<Action> all;
  if (!flights_.empty())
    all.push_back(action(ActionKind::backward, *flights_.begin()));
  if (!lessons_.empty())
    all.push_back(action(ActionKind::learn, *lessons_.begin()));
  if (next_ < grant_.end_turn && waiting() < plan_.in_flight)
    all.push_back({ActionKind::forward, next_, next_, grant_.phase});
  return all;
}

void FreeRunning::note(const Action& action) {
  switch (action.kind) {
    case ActionKind::forward:
      flights_.insert(action.batch);
      turn_ = action.batch;
      next_ = action.batch + 1;
      return;
    case ActionKind::backward:
      flights_.erase(action.batch);
      if (plan_.learns) lessons_.insert(action.batch);
      if (++since_update_ == plan_.accumulate) due_ = action.batch;
      return;
    case ActionKind::update:
      due_.reset();
      since_update_ = 0;
      return;
    case ActionKind::learn:
      lessons_.erase(action.batch);
      return;
    case ActionKind::learn_input:  // refused by make_free_plan()
      return;
    case ActionKind::evaluate:
      ++evaluated_;
      return;
    case ActionKind::checkpoint:
      saved_ = true;
      return;
  }
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
    if (boundaries[k].unlocks)
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
