#include "lib/schedules/plan.h"

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Turn t of a block: one forward, one backward and update, in its order.
/// `forward` is false in the turns of a drain.
void append_turn(const BlockPlan& plan, std::int64_t turn, bool forward,
                 std::vector<Action>& actions) {
  const Action forwarded{ActionKind::forward, turn, turn};
  const bool backward_first =
      plan.order == Order::backward_first && plan.delay > 0;
  if (forward && !backward_first) actions.push_back(forwarded);
  const std::int64_t applied = turn - plan.delay;
  if (applied >= 0) {
    actions.push_back({ActionKind::backward, applied, turn});
    actions.push_back({ActionKind::update, applied, turn});
  }
  if (forward && backward_first) actions.push_back(forwarded);
}

bool goes_up(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::evaluate;
}

MessageKind upward_kind(ActionKind kind) {
  return kind == ActionKind::forward ? MessageKind::activation
                                     : MessageKind::evaluation;
}

}  // namespace

RunPlan make_run_plan(const std::vector<Traits>& boundaries, bool model_norm) {
  const int count = static_cast<int>(boundaries.size()) + 1;
  RunPlan plan;
  plan.model_norm = model_norm;
  plan.blocks.resize(static_cast<std::size_t>(count));
  for (int block = count; block >= 1; --block) {
    BlockPlan& mine = plan.blocks[static_cast<std::size_t>(block) - 1];
    mine.block = block;
    if (block < count) {
      const Traits& above = boundaries[static_cast<std::size_t>(block) - 1];
      const BlockPlan& next = plan.blocks[static_cast<std::size_t>(block)];
      if (model_norm && (above.cut || above.delay > 0 || !above.from_above))
        throw UserError(
            "clip.scope = 'model' needs backprop at every boundary: boundary "
            "{} has another policy; use clip.scope = 'block'",
            block);
      mine.delay = above.cut ? 0 : above.delay + next.delay;
      mine.order = above.order;
      mine.gradient_from_above = above.from_above;
    }
    if (block > 1)
      mine.gradient_to_below =
          boundaries[static_cast<std::size_t>(block) - 2].from_above;
  }
  return plan;
}

std::vector<Action> actions_of(const BlockPlan& plan, const Grant& grant) {
  std::vector<Action> actions;
  for (std::int64_t turn = grant.first_turn; turn < grant.end_turn; ++turn)
    append_turn(plan, turn, true, actions);
  if (grant.drain)
    for (std::int64_t extra = 0; extra < plan.delay; ++extra)
      append_turn(plan, grant.end_turn + extra, false, actions);
  for (std::int64_t batch = 0; batch < grant.evaluation_batches; ++batch)
    actions.push_back({ActionKind::evaluate, batch, grant.end_turn});
  if (grant.checkpoint)
    actions.push_back({ActionKind::checkpoint, grant.end_turn, grant.end_turn});
  return actions;
}

std::vector<Transfer> needs_of(const RunPlan& plan, int block,
                               const Action& action) {
  const BlockPlan& mine = plan.blocks[static_cast<std::size_t>(block) - 1];
  if (goes_up(action.kind) && block > 1)
    return {{upward_kind(action.kind), block - 1, block, action.batch}};
  if (action.kind == ActionKind::backward && mine.gradient_from_above)
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
  if (action.kind == ActionKind::backward && mine.gradient_to_below)
    return {{MessageKind::gradient, block, block - 1, action.batch}};
  if (action.kind == ActionKind::update && plan.model_norm && block < count)
    return {{MessageKind::norm, block, block + 1, action.batch}};
  return {};
}

}  // namespace sluice
