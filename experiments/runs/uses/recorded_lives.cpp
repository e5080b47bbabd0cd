#include "experiments/runs/uses/recorded_lives.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/op.h"

namespace sluice {
namespace {

bool is_entry(const Action& action) {
  return action.kind == ExchangeKind::entry;
}

bool has_saved(const std::vector<Action>& actions, std::int64_t turn) {
  return std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
    return action.op == Op::save && action.batch == turn;
  });
}

/// Whether they end before the centre has answered.
bool end_at_centre(const std::vector<Action>& actions) {
  const auto last =
      std::find_if(actions.rbegin(), actions.rend(),
                   [](const Action& action) { return is_exchange(action.op); });
  return last != actions.rend() && last->op == Op::exchange &&
         last->kind != ExchangeKind::agreement;
}

/// Turn of the last rest that comes before that one.
std::optional<std::int64_t> last_rest(const std::vector<Action>& actions,
                                      std::int64_t turn) {
  std::optional<std::int64_t> last;
  for (const Action& action : actions)
    if (action.kind == ExchangeKind::agreement && action.batch <= turn)
      last = action.batch;
  return last;
}

/// Places in the order of a centre, from 1, that none of its replicas names.
std::vector<std::int64_t> unnamed(
    const std::vector<const std::vector<Action>*>& of_block) {
  std::set<std::int64_t> named;
  for (const std::vector<Action>* actions : of_block)
    for (const Action& action : *actions)
      if (action.op == Op::settle && action.kind != ExchangeKind::pull &&
          action.arrived > 0)
        named.insert(action.arrived);
  std::vector<std::int64_t> missing;
  std::int64_t next = 1;
  for (const std::int64_t place : named) {
    for (; next < place; ++next) missing.push_back(next);
    ++next;
  }
  return missing;
}

}  // namespace

bool agrees_before(const std::vector<Action>& actions, std::int64_t turn) {
  return std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
    return action.kind == ExchangeKind::agreement && action.batch == turn;
  });
}

RecordedLives::RecordedLives(const RunPlan& plan, Schedule& schedule,
                             std::int64_t last, int started,
                             const std::set<int>& lost,
                             const std::string& folder)
    : plan_(plan), folder_(folder) {
  for (const BlockPlan& block : plan.blocks) {
    const std::vector<Action>& actions = by_block(schedule, block.seat());
    check(actions, block.replica);
    const bool is_later = block.replica > started;
    if (!actions.empty() && is_entry(actions.front()))
      join(block.replica, last_rest(schedule.front(), actions.front().batch));
    else if (is_later && actions.empty() &&
             !joined_after_.contains(block.replica))
      later_.insert(block.replica);
    const bool may_be_gone = is_later || lost.contains(block.replica);
    if (may_be_gone && !has_saved(actions, last)) lost_.insert(block.replica);
  }
  for (int block = 1; block <= plan.depth(); ++block) complete(schedule, block);
}

void RecordedLives::join(int replica, std::optional<std::int64_t> rest) {
  later_.erase(replica);
  if (!rest) return;
  later_.insert(replica);
  joined_after_[replica] = *rest;
}

void RecordedLives::check(const std::vector<Action>& actions,
                          int replica) const {
  if (!plan_.blocks.front().exchange.agrees) return;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    const bool is_anew =
        (i > 1 && is_entry(action)) ||
        (action.op == Op::save && !agrees_before(actions, action.batch));
    if (is_anew)
      throw UserError(
          "{}: another replica {} took the place of one that was lost, at turn "
          "{}, and a replay has one at each place",
          folder_, replica, action.batch);
  }
}

/// A centre that serves each by itself has served the last exchange, or not: it
/// counts those that it serves. One of a quorum may have merged it later.
void RecordedLives::complete(Schedule& schedule, int block) const {
  std::vector<const std::vector<Action>*> of_block;
  std::vector<std::vector<Action>*> open;
  for (const BlockPlan& each : plan_.blocks) {
    if (each.block != block) continue;
    std::vector<Action>& actions = by_block(schedule, each.seat());
    of_block.push_back(&actions);
    if (!lost_.contains(each.replica)) continue;
    const bool waits = !actions.empty() && actions.back().op == Op::settle &&
                       each.exchange.quorum.is_there() &&
                       actions.back().kind == each.exchange.of_window();
    if (waits || end_at_centre(actions)) open.push_back(&actions);
  }
  if (open.empty()) return;
  const std::vector<std::int64_t> missing = unnamed(of_block);
  const bool is_quorum =
      by_block(plan_.blocks, block).exchange.quorum.is_there();
  if (is_quorum || missing.size() > 1 || (open.size() > 1 && !missing.empty()))
    throw UserError(
        "{}: a replica was lost while it waited at the centre of block {}, and "
        "nothing records whether that took what it brought",
        folder_, block);
  for (std::vector<Action>* actions : open) {
    if (missing.empty()) {
      actions->pop_back();
      continue;
    }
    Action served = actions->back();
    served.op = Op::settle;
    served.arrived = missing.front();
    actions->push_back(served);
  }
}

}  // namespace sluice
