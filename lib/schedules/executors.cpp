#include "lib/schedules/executors.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "lib/base/by_block.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

std::vector<SeatAction> of_one(const RunPlan& plan, int block,
                               const Grant& grant) {
  std::vector<SeatAction> all;
  for (const Action& action : actions_of(by_block(plan.blocks, block), grant))
    all.push_back({block, action});
  return all;
}

bool is_ordered(const Action& action) {
  return action.op == Op::forward || action.op == Op::backward;
}

/// What is left to do of one block's list.
struct Rest {
  std::vector<SeatAction> actions;
  std::size_t next = 0;

  bool is_done() const { return next == actions.size(); }
  /// The next action, which must be that one, and what follows from it.
  void take(const Action& ordered, std::vector<SeatAction>& into) {
    SLUICE_CHECK(!is_done() && actions[next].action == ordered,
                 "block {} is to do {} out of its order", actions.front().block,
                 to_text(ordered));
    do into.push_back(actions[next++]);
    while (!is_done() && !is_ordered(actions[next].action) &&
           actions[next].action.turn == ordered.turn &&
           actions[next].action.op != Op::evaluate &&
           actions[next].action.op != Op::save);
  }
};

/// After the turns: evaluation batches one after the other, then the saves.
std::vector<SeatAction> after_turns(const std::map<int, Rest>& rests) {
  std::vector<SeatAction> left;
  for (const auto& [block, rest] : rests)
    left.insert(left.end(),
                rest.actions.begin() + static_cast<std::ptrdiff_t>(rest.next),
                rest.actions.end());
  const auto place = [](const SeatAction& each) {
    return std::tuple(each.action.op == Op::save, each.action.batch,
                      each.block);
  };
  std::stable_sort(left.begin(), left.end(),
                   [&](const SeatAction& one, const SeatAction& other) {
                     return place(one) < place(other);
                   });
  return left;
}

}  // namespace

int executors_of(const RunPlan& plan) {
  const int executors = plan.blocks.front().seating.executors;
  return executors > 0 ? executors : static_cast<int>(plan.blocks.size());
}

std::vector<int> blocks_of(const RunPlan& plan, int executor) {
  std::vector<int> blocks;
  for (int block = executor + 1; block <= std::ssize(plan.blocks);
       block += executors_of(plan))
    blocks.push_back(block);
  return blocks;
}

std::vector<int> blocks_beside(const RunPlan& plan, int block) {
  return blocks_of(plan, plan.blocks.front().seating.executor_of(block));
}

int first_beside(const RunPlan& plan, int block) {
  return blocks_beside(plan, block).front();
}

std::vector<SeatAction> executor_actions(const RunPlan& plan, int executor,
                                         const Grant& grant) {
  const std::vector<int> blocks = blocks_of(plan, executor);
  if (blocks.size() == 1) return of_one(plan, blocks.front(), grant);
  std::map<int, Rest> rests;
  for (const int block : blocks) rests[block] = {of_one(plan, block, grant)};
  std::vector<SeatAction> all;
  for (const SeatAction& each : plan.order(plan, executor, grant))
    rests.at(each.block).take(each.action, all);
  for (SeatAction& each : after_turns(rests)) all.push_back(std::move(each));
  return all;
}

}  // namespace sluice
