#include "lib/schedules/plan.h"

#include <algorithm>

#include "lib/base/error.h"
#include "lib/schedules/reach.h"
#include "lib/schedules/targets.h"

namespace sluice {
namespace {

bool goes_up(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::evaluate;
}

MessageKind upward_kind(ActionKind kind) {
  return kind == ActionKind::forward ? MessageKind::activation
                                     : MessageKind::evaluation;
}

}  // namespace

namespace {

/// What the boundary above adds to a block's plan; `next` is that of the block
/// above it.
void set_boundary(const Traits& above, const BlockPlan& next, BlockPlan& mine) {
  const bool arrives =
      std::any_of(mine.parts.begin(), mine.parts.end(),
                  [](const GradientPart& part) { return !part.own; });
  mine.gradient_from_above = arrives;
  mine.delay = arrives ? above.delay + next.delay : 0;
  if (above.reach != kUnbounded && mine.delay > 0)
    throw UserError(
        "boundary {}: what is within its reach must not be delayed, and a "
        "boundary above it delays by {}",
        mine.block, mine.delay);
  mine.order = above.order;
  // A boundary that adds no delay of its own keeps the weights of its forwards.
  if (above.delay > 0) {
    mine.weights = above.weights;
    mine.statistics = above.statistics;
  }
  mine.needs_raw_input = above.needs.raw_input;
  // A block that is unlocked has the batch from its own source.
  mine.raw_input_to_above =
      !above.unlocks && (next.needs_raw_input || next.raw_input_to_above);
  mine.learns = above.learns;
  if (above.learns)
    mine.learn_delay = above.target_delay + std::max(mine.delay, next.delay);
}

}  // namespace

bool BlockPlan::is_merged() const {
  return std::all_of(parts.begin(), parts.end(), [&](const GradientPart& part) {
    return part.target || (part.applied == parts.front().applied &&
                           part.leaving == parts.front().leaving);
  });
}

RunPlan make_run_plan(const std::vector<Traits>& boundaries, bool model_norm,
                      std::int64_t accumulate) {
  const int count = static_cast<int>(boundaries.size()) + 1;
  LossPaths paths = loss_paths(boundaries);
  add_targets(boundaries, paths);
  RunPlan plan;
  plan.model_norm = model_norm;
  plan.blocks.resize(static_cast<std::size_t>(count));
  for (int block = count; block >= 1; --block) {
    const auto index = static_cast<std::size_t>(block) - 1;
    BlockPlan& mine = plan.blocks[index];
    mine.block = block;
    mine.accumulate = accumulate;
    mine.parts = paths.parts[index];
    mine.leaving = paths.leaving[index];
    mine.target_from_above = paths.target_from_above[index];
    if (block > 1) {
      const Traits& below = boundaries[index - 1];
      mine.first_layer_to_below = below.needs.first_layer_above;
      mine.unlocked = below.unlocks;
    }
    if (block == count) continue;
    const Traits& above = boundaries[index];
    if (above.replay)
      throw UserError(
          "boundary {}: a buffer needs blocks that don't wait for each other: "
          "schedule = 'free'",
          block);
    if (above.slow_consumer != SlowConsumer::block)
      throw UserError(
          "boundary {}: slow_consumer needs blocks that don't wait for each "
          "other: schedule = 'free'",
          block);
    if (model_norm && (above.cut || above.delay > 0 || !above.from_above))
      throw UserError(
          "clip.scope = 'model' needs backprop at every boundary: boundary "
          "{} has another policy; use clip.scope = 'block'",
          block);
    set_boundary(above, plan.blocks[index + 1], mine);
  }
  return plan;
}

Barrier barrier_around_iterations(const RunPlan& plan) {
  const bool replays = std::any_of(
      plan.blocks.begin(), plan.blocks.end(), [](const BlockPlan& block) {
        return block.delay > 0 && block.order == Order::forward_first &&
               block.weights == WeightsAtBackward::current;
      });
  return replays ? Barrier::play_and_replay : Barrier::turn;
}

TurnPart part_of(const BlockPlan& plan, const Action& action) {
  // In order B the forward is the last of the turn, but for learning.
  const bool all_before_forward =
      plan.order == Order::backward_first && plan.delay > 0;
  const bool plays = action.kind == ActionKind::forward ||
                     (all_before_forward && action.kind != ActionKind::learn &&
                      action.kind != ActionKind::learn_input);
  return plays ? TurnPart::play : TurnPart::rest;
}

std::int64_t turns_in_flight(const BlockPlan& plan) {
  return std::max(plan.delay, plan.learn_delay);
}

std::vector<Action> actions_of(const BlockPlan& plan, const Grant& grant) {
  std::vector<Action> actions;
  // A turn: one forward, one backward and, when a window of accumulation is
  // full, an update, in the block's order; no forward in the turns of a drain.
  const auto append = [&](std::int64_t turn, bool has_forward) {
    const Action forward{ActionKind::forward, turn, turn, grant.phase};
    const bool backward_first =
        plan.order == Order::backward_first && plan.delay > 0;
    if (has_forward && !backward_first) actions.push_back(forward);
    const std::int64_t applied = turn - plan.delay;
    if (applied >= grant.first_batch && applied < grant.end_turn) {
      actions.push_back({ActionKind::backward, applied, turn, grant.phase});
      if ((applied - grant.first_batch + 1) % plan.accumulate == 0)
        actions.push_back({ActionKind::update, applied, turn, grant.phase});
    }
    if (has_forward && backward_first) actions.push_back(forward);
    if (has_forward && plan.unlocked)
      actions.push_back({ActionKind::learn_input, turn, turn, grant.phase});
    const std::int64_t lesson = turn - plan.learn_delay;
    if (plan.learns && lesson >= grant.first_batch)
      actions.push_back({ActionKind::learn, lesson, turn, grant.phase});
  };
  for (std::int64_t turn = grant.first_turn; turn < grant.end_turn; ++turn)
    append(turn, true);
  if (grant.drain)
    for (std::int64_t extra = 0; extra < turns_in_flight(plan); ++extra)
      append(grant.end_turn + extra, false);
  if (grant.part != TurnPart::whole)
    std::erase_if(actions, [&](const Action& action) {
      return part_of(plan, action) != grant.part;
    });
  for (std::int64_t batch = 0; batch < grant.evaluation_batches; ++batch)
    actions.push_back(
        {ActionKind::evaluate, batch, grant.end_turn, grant.phase});
  if (grant.checkpoint)
    actions.push_back(
        {ActionKind::checkpoint, grant.end_turn, grant.end_turn, grant.phase});
  return actions;
}

std::vector<Action> actions_of(const Plans& plans, int block,
                               const Grant& grant) {
  const RunPlan& plan = plans.at(static_cast<std::size_t>(grant.phase));
  return actions_of(plan.blocks.at(static_cast<std::size_t>(block) - 1), grant);
}

std::optional<std::int64_t> gradient_taken_after(const BlockPlan& plan) {
  if (plan.gradient_from_above) return plan.delay;
  if (plan.learns) return plan.learn_delay;
  return std::nullopt;
}

std::vector<Transfer> needs_of(const RunPlan& plan, int block,
                               const Action& action) {
  const BlockPlan& mine = plan.blocks[static_cast<std::size_t>(block) - 1];
  if (action.kind == ActionKind::learn_input)
    return {{MessageKind::activation, block - 1, block, action.batch}};
  if (action.kind == ActionKind::forward && mine.unlocked) return {};
  // A replay buffer gives what it has.
  if (action.kind == ActionKind::forward && mine.replay) return {};
  if (goes_up(action.kind) && block > 1)
    return {{upward_kind(action.kind), block - 1, block, action.batch}};
  const bool takes_gradient = mine.gradient_from_above
                                  ? action.kind == ActionKind::backward
                                  : action.kind == ActionKind::learn;
  if (takes_gradient)
    return {{MessageKind::gradient, block + 1, block, action.batch}};
  if (action.kind == ActionKind::update && plan.model_norm && block > 1)
    return {{MessageKind::norm, block - 1, block, action.batch}};
  return {};
}

std::vector<Transfer> yields_of(const RunPlan& plan, int block,
                                const Action& action) {
  const int count = static_cast<int>(plan.blocks.size());
  const BlockPlan& mine = plan.blocks[static_cast<std::size_t>(block) - 1];
  if (goes_up(action.kind) && block < count)
    return {{upward_kind(action.kind), block, block + 1, action.batch}};
  if (action.kind == ActionKind::backward &&
      (mine.gradient_to_below() || mine.first_layer_to_below))
    return {{MessageKind::gradient, block, block - 1, action.batch}};
  if (action.kind == ActionKind::update && plan.model_norm && block < count)
    return {{MessageKind::norm, block, block + 1, action.batch}};
  return {};
}

std::vector<Transfer> in_flight(const RunPlan& plan, std::int64_t turn,
                                std::int64_t first_batch) {
  std::vector<Transfer> sent;
  for (std::size_t k = 0; k + 1 < plan.blocks.size(); ++k) {
    const BlockPlan& below = plan.blocks[k];
    const BlockPlan& above = plan.blocks[k + 1];
    const auto taken_after = gradient_taken_after(below);
    if (!taken_after) continue;
    const std::int64_t first = std::max(first_batch, turn - *taken_after);
    for (std::int64_t batch = first; batch < turn - above.delay; ++batch)
      sent.push_back({MessageKind::gradient, above.block, below.block, batch});
  }
  return sent;
}

}  // namespace sluice
