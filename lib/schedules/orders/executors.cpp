#include "lib/schedules/orders/executors.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/op_table.h"
#include "lib/schedules/plan/program.h"

namespace sluice {
namespace {

std::vector<ExecutorStep> steps_of_turn(const BlockPlan& plan,
                                        std::int64_t turn) {
  return plan.placement.steps(
      plan.placement,
      plan.placement.executor_of(plan.block) - plan.placement.first,
      plan.micro_batches.batches_in(turn));
}

/// Action of a block's step; none for the second half of a backward that the
/// block does whole.
std::optional<Action> action_of(const BlockPlan& plan, const ExecutorStep& step,
                                std::int64_t turn, const Grant& grant) {
  Action action{step.op, plan.micro_batches.first_of(turn) + step.batch, turn,
                grant.phase};
  if (plan.segment.below > 0) return action;
  if (step.op == Op::backward_weights) return std::nullopt;
  if (step.op == Op::backward_input) action.op = Op::backward;
  return action;
}

/// Forwards and backwards of an executor with these seats, in its order.
std::vector<SeatAction> ordered(const RunPlan& plan,
                                const std::vector<int>& seats,
                                const Grant& grant) {
  std::vector<SeatAction> all;
  for (std::int64_t turn = grant.first_turn; turn < grant.end_turn; ++turn)
    for (const ExecutorStep& step :
         steps_of_turn(by_block(plan.blocks, seats.front()), turn)) {
      const int seat = seats.at(static_cast<std::size_t>(step.chunk));
      const auto action =
          action_of(by_block(plan.blocks, seat), step, turn, grant);
      if (action) all.push_back({seat, *action});
    }
  return all;
}

std::vector<SeatAction> of_one(const RunPlan& plan, int seat,
                               const Grant& grant) {
  std::vector<SeatAction> all;
  for (const Action& action : actions_of(by_block(plan.blocks, seat), grant))
    all.push_back({seat, action});
  return all;
}

bool is_ordered(const Action& action) {
  return action.op == Op::forward || action.op == Op::backward ||
         action.op == Op::backward_input || action.op == Op::backward_weights;
}

/// Whether an action follows the turns, or is the sum over replicas before such
/// a one.
bool is_after_turns(const Action& action) {
  return !row_of(action.op).is_training ||
         action.kind == ExchangeKind::agreement;
}

/// The actions of a seat that are still to do.
struct Rest {
  std::vector<SeatAction> actions;
  std::size_t next = 0;

  /// Takes the next action, which must be `ordered`, and those that follow from
  /// it, up to a wait for the seat's replicas.
  void take(const Action& ordered, std::vector<SeatAction>& into) {
    finish(into);
    SLUICE_CHECK(next < actions.size() && actions[next].action == ordered,
                 "seat {} is to do {} out of its order", actions.front().seat,
                 to_text(ordered));
    into.push_back(actions[next++]);
    while (is_at_follower() && actions[next].action.op != Op::settle)
      into.push_back(actions[next++]);
  }
  /// Adds the actions that follow from the last one and were put off.
  void finish(std::vector<SeatAction>& into) {
    while (is_at_follower()) into.push_back(actions[next++]);
  }

 private:
  bool is_at_follower() const {
    return next > 0 && next < actions.size() &&
           !is_ordered(actions[next].action) &&
           actions[next].action.turn == actions[next - 1].action.turn &&
           !is_after_turns(actions[next].action);
  }
};

/// Actions after the turns: evaluation batches one after the other, then the
/// saves.
std::vector<SeatAction> after_turns(const std::map<int, Rest>& rests) {
  std::vector<SeatAction> left;
  for (const auto& [seat, rest] : rests)
    left.insert(left.end(),
                rest.actions.begin() + static_cast<std::ptrdiff_t>(rest.next),
                rest.actions.end());
  const auto place = [](const SeatAction& each) {
    const Op op = each.action.op;
    const bool agrees = op == Op::exchange || op == Op::settle;
    return std::tuple(op == Op::save ? 2
                      : agrees       ? 0
                                     : 1,
                      agrees ? 0 : each.action.batch, each.seat);
  };
  std::stable_sort(left.begin(), left.end(),
                   [&](const SeatAction& one, const SeatAction& other) {
                     return place(one) < place(other);
                   });
  return left;
}

}  // namespace

Placement placed_in_loops(int blocks, int executors) {
  Placement placement{.count = executors};
  for (int block = 1; block <= blocks; ++block)
    placement.executors.push_back((block - 1) % executors);
  return placement;
}

Placement placed_in_v(int blocks) {
  Placement placement{.count = blocks / 2};
  for (int block = 1; block <= blocks; ++block)
    placement.executors.push_back(std::min(block - 1, blocks - block));
  return placement;
}

BlockProgram own_steps(const BlockPlan& plan, const Grant& grant) {
  const std::vector<int>& executors = plan.placement.executors;
  const auto mine = executors.begin() + plan.block - 1;
  const auto chunk = std::count(executors.begin(), mine, *mine);
  BlockProgram program;
  for (std::int64_t turn = grant.first_turn; turn < grant.end_turn; ++turn)
    for (const ExecutorStep& step : steps_of_turn(plan, turn)) {
      if (step.chunk != chunk) continue;
      const auto action = action_of(plan, step, turn, grant);
      if (action) program.push_back(*action);
    }
  return program;
}

int executors_of(const RunPlan& plan) {
  const int executors = plan.blocks.front().placement.count;
  return executors > 0 ? plan.replicas * executors
                       : static_cast<int>(plan.blocks.size());
}

int executor_of(const RunPlan& plan, int seat) {
  const BlockPlan& mine = by_block(plan.blocks, seat);
  return mine.placement.executor_of(mine.block);
}

std::vector<int> seats_of(const RunPlan& plan, int executor) {
  std::vector<int> seats;
  for (const BlockPlan& each : plan.blocks)
    if (each.placement.executor_of(each.block) == executor)
      seats.push_back(each.seat());
  return seats;
}

std::vector<int> seats_beside(const RunPlan& plan, int seat) {
  if (!by_block(plan.blocks, seat).placement.is_shared()) return {seat};
  return seats_of(plan, executor_of(plan, seat));
}

int first_beside(const RunPlan& plan, int seat) {
  return seats_beside(plan, seat).front();
}

std::vector<SeatAction> executor_actions(const RunPlan& plan, int executor,
                                         const Grant& grant) {
  const std::vector<int> seats = seats_of(plan, executor);
  if (seats.size() == 1) return of_one(plan, seats.front(), grant);
  std::map<int, Rest> rests;
  for (const int seat : seats) rests[seat] = {of_one(plan, seat, grant)};
  std::vector<SeatAction> all;
  for (const SeatAction& each : ordered(plan, seats, grant))
    rests.at(each.seat).take(each.action, all);
  for (auto& [seat, rest] : rests) rest.finish(all);
  for (SeatAction& each : after_turns(rests)) all.push_back(std::move(each));
  return all;
}

}  // namespace sluice
