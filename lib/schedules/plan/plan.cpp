#include "lib/schedules/plan/plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/combinations.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/plan/op_table.h"
#include "lib/schedules/plan/program.h"
#include "lib/schedules/plan/reach.h"
#include "lib/schedules/plan/sweeps.h"
#include "lib/schedules/plan/targets.h"

namespace sluice {
namespace {

std::vector<std::string> united(const std::vector<std::string>& left,
                                const std::vector<std::string>& right) {
  std::set<std::string> all(left.begin(), left.end());
  all.insert(right.begin(), right.end());
  return {all.begin(), all.end()};
}

/// What the boundary above adds to a block's plan; `next` is that of the block
/// above it.
void set_boundary(const Traits& above, const BlockPlan& next,
                  const AddedDelay& added, BlockPlan& mine) {
  const bool arrives =
      std::any_of(mine.gradients.parts.begin(), mine.gradients.parts.end(),
                  [](const GradientPart& part) { return !part.own; });
  mine.gradients.from_above = arrives;
  if (!added.is_there())
    mine.delay = arrives ? above.delay + next.delay : 0;
  else if (arrives && mine.delay < next.delay)
    throw UserError(
        "delay.turns: block {} has {} and block {}, whose gradient it waits "
        "for, {}: set at least as many below as above",
        mine.block, mine.delay, next.block, next.delay);
  if (above.reach.blocks != kUnbounded && mine.delay > 0)
    throw UserError(
        "boundary {}: what is within its reach must not be delayed, and a "
        "boundary above it delays by {}",
        mine.block, mine.delay);
  mine.order = above.order;
  // A boundary that adds no delay of its own keeps the weights of its forwards.
  if (above.delay > 0) mine.weights = above.weights;
  mine.lower.keeps = above.lower.attachments;
  mine.lower.publishes = above.lower.publishes;
  // A block above an unlock has the batch from its own source.
  if (above.upper != UpperEnd::from_data)
    mine.lower.relays = united(next.lower.keeps, next.lower.relays);
  mine.lower.learns = above.lower.learns;
  mine.lower.learns_by_steps = above.lower.learns_by_steps;
  if (above.lower.learns)
    mine.lower.learn_delay =
        above.lower.target_delay + std::max(mine.delay, next.delay);
}

void place_in_segments(std::vector<BlockPlan>& blocks) {
  for (std::size_t k = 1; k < blocks.size(); ++k)
    if (blocks[k - 1].gradients.from_above)
      blocks[k].segment.below = blocks[k - 1].segment.below + 1;
  for (std::size_t k = blocks.size() - 1; k-- > 0;)
    if (blocks[k].gradients.from_above)
      blocks[k].segment.above = blocks[k + 1].segment.above + 1;
}

/// Where a batch has the weights of its entry, each block of its segment uses
/// them: the highest one too, whose gradient isn't delayed.
void share_weights_of_entry(std::vector<BlockPlan>& blocks) {
  for (std::size_t k = 1; k < blocks.size(); ++k) {
    const BlockPlan& mine = blocks[k - 1];
    BlockPlan& next = blocks[k];
    if (!mine.gradients.from_above) continue;
    const bool is_top = !next.gradients.from_above;
    if (mine.weights.of_entry && next.forwards_data())
      throw UserError(
          "boundary {}: with weights = '{}' a batch brings the version of its "
          "weights from below, and an unlock doesn't wait for it: leave one of "
          "them out",
          k, mine.weights.view);
    if (!is_top && mine.weights.of_entry != next.weights.of_entry)
      throw UserError(
          "boundaries {} and {}: weights = '{}' is one version of the weights "
          "in all blocks between two cuts: set a policy that delays, and these "
          "weights, at all boundaries there",
          k, k + 1, (mine.weights.of_entry ? mine : next).weights.view);
    if (is_top && mine.weights.of_entry) next.weights = mine.weights;
  }
}

}  // namespace

bool GradientFlow::are_merged() const {
  return std::all_of(parts.begin(), parts.end(), [&](const GradientPart& part) {
    return part.target || (part.applied == parts.front().applied &&
                           part.leaving == parts.front().leaving);
  });
}

RunPlan make_run_plan(const std::vector<Traits>& boundaries, bool model_norm,
                      std::int64_t accumulate,
                      const MicroBatches& micro_batches,
                      const AddedDelay& added) {
  check_lockstep(boundaries, model_norm, micro_batches);
  const int count = static_cast<int>(boundaries.size()) + 1;
  LossPaths paths = loss_paths(boundaries);
  add_targets(boundaries, paths);
  check_added(boundaries, model_norm, added, micro_batches);
  RunPlan plan;
  plan.model_norm = model_norm;
  plan.blocks.resize(static_cast<std::size_t>(count));
  for (int block = count; block >= 1; --block) {
    const auto index = static_cast<std::size_t>(block) - 1;
    BlockPlan& mine = plan.blocks[index];
    mine.block = block;
    mine.accumulate = accumulate;
    mine.micro_batches = micro_batches;
    mine.gradients.parts = paths.parts[index];
    mine.gradients.leaving = paths.leaving[index];
    mine.gradients.target_from_above = paths.target_from_above[index];
    mine.delay = added.of(block);
    mine.weights = added.weights;
    if (block > 1) mine.upper = boundaries[index - 1].upper;
    if (block == count) continue;
    const Traits& above = boundaries[index];
    set_boundary(above, plan.blocks[index + 1], added, mine);
  }
  place_in_segments(plan.blocks);
  for (std::size_t k = 1; k < plan.blocks.size(); ++k) {
    const BlockPlan& below = plan.blocks[k - 1];
    plan.blocks[k].gradients.returns_input =
        below.delay > 0 && below.weights.rebuilds;
  }
  share_weights_of_entry(plan.blocks);
  add_sweeps(boundaries, plan);
  return plan;
}

Barrier barrier_around_iterations(const RunPlan& plan) {
  const bool replays = std::any_of(
      plan.blocks.begin(), plan.blocks.end(), [](const BlockPlan& block) {
        return block.delay > 0 && block.order == Order::forward_first &&
               block.weights.replays();
      });
  return replays ? Barrier::play_and_replay : Barrier::turn;
}

TurnPart part_of(const BlockPlan& plan, const Action& action) {
  // In order B the forward is the last of the turn, except lessons.
  const bool all_before_forward =
      plan.order == Order::backward_first && plan.delay > 0;
  const bool plays =
      action.op == Op::forward || (all_before_forward && !is_of_lesson(action));
  return plays ? TurnPart::play : TurnPart::rest;
}

std::int64_t turns_in_flight(const BlockPlan& plan) {
  return std::max(plan.delay, plan.lower.learn_delay);
}

std::vector<Action> actions_of(const BlockPlan& plan, const Grant& grant) {
  BlockProgram program = with_visits(plan, plan.program(plan, grant));
  program = with_followers(plan, grant, program);
  program = with_overlap(plan, std::move(program));
  program = with_lessons(plan, grant, program);
  program = only_part(plan, grant.part, std::move(program));
  program = with_agreement(plan, grant, std::move(program));
  program = with_evaluation(plan, grant, std::move(program));
  return with_saving(grant, std::move(program));
}

std::vector<Action> actions_of(const Plans& plans, int seat,
                               const Grant& grant) {
  const RunPlan& plan = plans.at(static_cast<std::size_t>(grant.phase));
  return actions_of(by_block(plan.blocks, seat), grant);
}

std::optional<std::int64_t> gradient_taken_after(const BlockPlan& plan) {
  if (plan.gradients.from_above) return plan.delay;
  if (plan.lower.learns) return plan.lower.learn_delay;
  return std::nullopt;
}

std::vector<Transfer> needs_of(const RunPlan& plan, int seat,
                               const Action& action) {
  const OpRow& row = row_of(action.op);
  return row.in == nullptr ? std::vector<Transfer>()
                           : row.in(plan, seat, action);
}

std::vector<Transfer> yields_of(const RunPlan& plan, int seat,
                                const Action& action) {
  const OpRow& row = row_of(action.op);
  return row.out == nullptr ? std::vector<Transfer>()
                            : row.out(plan, seat, action);
}

std::vector<Transfer> in_flight(const RunPlan& plan, std::int64_t turn,
                                std::int64_t first_batch) {
  std::vector<Transfer> sent;
  for (const BlockPlan& below : plan.blocks) {
    const auto taken_after = gradient_taken_after(below);
    if (!taken_after) continue;
    // Delay in replica 1, which has the first seats; all replicas have it.
    const std::int64_t delay = by_block(plan.blocks, below.block + 1).delay;
    const MicroBatches& cut = below.micro_batches;
    for (std::int64_t each = std::max(first_batch, turn - *taken_after);
         each < turn - delay; ++each)
      for (std::int64_t i = 0; i < cut.batches_in(each); ++i) {
        const std::int64_t batch = cut.batch_of(each, i);
        const int above = neighbour_with(plan, below.seat(), Direction::above,
                                         MessageKind::gradient, batch);
        sent.push_back({MessageKind::gradient, above, below.seat(), batch});
      }
  }
  return sent;
}

}  // namespace sluice
