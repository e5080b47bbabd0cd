#include "experiments/runs/uses/recorded_lives.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/op.h"

namespace sluice {
namespace {

using Actions = std::span<const Action>;

constexpr std::int64_t kNoTurn = -1;
constexpr std::int64_t kNoPlace = std::numeric_limits<std::int64_t>::max();

bool begins_entry(const Action& action) {
  return action.kind == ExchangeKind::entry && action.op == Op::exchange;
}

bool has_saved(const std::vector<Action>& actions, std::int64_t turn) {
  return std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
    return action.op == Op::save && action.batch == turn;
  });
}

/// Whether they end before the centre has answered.
bool end_at_centre(Actions actions) {
  const auto last =
      std::find_if(actions.rbegin(), actions.rend(),
                   [](const Action& action) { return is_exchange(action.op); });
  return last != actions.rend() && last->op == Op::exchange &&
         last->kind != ExchangeKind::agreement;
}

/// Whether they end before the centre has merged what it was brought.
bool end_before_merge(Actions actions) {
  const auto last =
      std::find_if(actions.rbegin(), actions.rend(),
                   [](const Action& action) { return is_exchange(action.op); });
  return last != actions.rend() && last->op == Op::settle &&
         last->kind == ExchangeKind::push;
}

/// Whether they end before all others have come to a rest.
bool end_in_rest(Actions actions) {
  return !actions.empty() && actions.back().op == Op::exchange &&
         actions.back().kind == ExchangeKind::agreement;
}

bool agree_before(Actions actions, std::int64_t turn) {
  return std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
    return action.kind == ExchangeKind::agreement && action.batch == turn;
  });
}

bool has_rest_until(Actions actions, std::int64_t turn) {
  return std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
    return action.kind == ExchangeKind::agreement && action.batch <= turn;
  });
}

/// Turn of the last rest that they are of, or at whose end they begin.
std::int64_t last_rest(Actions actions) {
  std::int64_t last = kNoTurn;
  for (const Action& action : actions)
    if (action.kind == ExchangeKind::agreement || begins_entry(action))
      last = action.batch;
  return last;
}

/// The place in the order of a centre that the action names; 0: none.
std::int64_t place_of(const Action& action) {
  const bool is_served =
      action.op == Op::settle && action.kind != ExchangeKind::pull;
  return is_served ? action.arrived : 0;
}

std::int64_t last_place(Actions actions) {
  std::int64_t last = 0;
  for (const Action& action : actions) last = std::max(last, place_of(action));
  return last;
}

std::int64_t first_place(Actions actions) {
  const auto first =
      std::find_if(actions.begin(), actions.end(),
                   [](const Action& action) { return place_of(action) > 0; });
  return first == actions.end() ? kNoPlace : place_of(*first);
}

/// Actions of a seat that one replica did: [begin, end), and the turn at which
/// it joined.
struct LifePart {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int64_t joined = kNoTurn;

  Actions of(Actions all) const { return all.subspan(begin, end - begin); }
};

std::vector<LifePart> parts_of(Actions actions) {
  std::vector<LifePart> parts;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (i > 0 && !begins_entry(actions[i])) continue;
    if (i > 0) parts.back().end = i;
    parts.push_back({.begin = i, .end = actions.size()});
    if (begins_entry(actions[i])) parts.back().joined = actions[i].batch;
  }
  return parts;
}

/// What the replica did at the seat that had joined at that turn.
Actions part_joined_at(std::int64_t turn, Actions actions) {
  for (const LifePart& part : parts_of(actions))
    if (part.joined == turn) return part.of(actions);
  return {};
}

/// Losses of a seat's replicas, as the centre says them and as they are noted.
using SaidLosses =
    std::vector<std::pair<const records::CentreLoss*, RecordedLoss*>>;

/// The first of these that may be of a part that ended; the end: the centre
/// hadn't told. Some are of replicas that did nothing there.
SaidLosses::iterator loss_of(
    Actions part, Actions rest,
    std::pair<SaidLosses::iterator, SaidLosses::iterator> losses) {
  const std::int64_t last = last_place(part);
  const std::int64_t next = first_place(rest);
  const auto find = [&](std::int64_t least) {
    return std::find_if(losses.first, losses.second, [&](const auto& loss) {
      return loss.first->served >= least && loss.first->place < next;
    });
  };
  if (last == 0 && end_at_centre(part))
    if (const auto served = find(1); served != losses.second) return served;
  if (const auto told = find(last); told != losses.second) return told;
  // A centre that was opened anew since, from a checkpoint, had served nothing.
  return std::find_if(losses.first, losses.second, [&](const auto& loss) {
    return loss.first->served == 0 && loss.first->place >= last &&
           loss.first->place < next;
  });
}

/// Turn of the rest before which the centre had lost the replica.
std::int64_t rest_after(const records::CentreLoss& loss) {
  return loss.turn + 1;
}

/// What the centre served and the part doesn't have at its end.
std::vector<Action> not_told_in(Actions part, const records::CentreLoss& loss) {
  std::vector<Action> more;
  if (end_at_centre(part) && loss.served > last_place(part)) {
    more.push_back(part.back());
    more.back().op = Op::settle;
    more.back().arrived = loss.served;
  }
  const bool waits = more.empty() ? end_before_merge(part)
                                  : more.back().kind == ExchangeKind::push;
  if (waits && loss.merged > 0) {
    more.push_back(more.empty() ? part.back() : more.back());
    more.back().op = Op::settle;
    more.back().kind = ExchangeKind::pull;
    more.back().arrived = loss.merged;
  }
  return more;
}

/// Whether the part ends with an exchange that had not come to the centre. What
/// came after the last rest changed nothing.
bool is_cut_short(Actions part, const records::CentreLoss* loss) {
  if (end_in_rest(part))
    return loss != nullptr && loss->rests == 0 &&
           rest_after(*loss) == part.back().batch;
  return end_at_centre(part) &&
         (loss == nullptr || loss->served <= last_place(part));
}

RecordedLoss loss_in(const records::CentreLoss& said, bool has_place) {
  return {.block = said.block,
          .replica = said.replica,
          .place = said.place,
          .has_place = has_place,
          .served = said.served,
          .is_dropped = said.merged == 0,
          .rest = rest_after(said)};
}

}  // namespace

RecordedLives::RecordedLives(const RunPlan& plan, Schedule& schedule,
                             const RunFacts& facts, const std::string& folder)
    : plan_(plan), folder_(folder) {
  for (const records::CentreLoss& said : facts.losses)
    losses_.push_back(loss_in(said, facts.counts_losses));
  for (const BlockPlan& block : plan.blocks)
    look_at(block, by_block(schedule, block.seat()), schedule.front(), facts);
  const auto has_vain = [&](const BlockPlan& block) {
    return take_out_vain(block, schedule);
  };
  while (std::any_of(plan.blocks.begin(), plan.blocks.end(), has_vain)) {
  }
  for (const BlockPlan& block : plan.blocks)
    complete(block, by_block(schedule, block.seat()), facts);
}

/// first: of the first seat, which comes to every rest.
void RecordedLives::look_at(const BlockPlan& block,
                            const std::vector<Action>& actions,
                            const std::vector<Action>& first,
                            const RunFacts& facts) {
  check(actions, block.replica);
  const bool is_later = block.replica > facts.started;
  const bool joined = !actions.empty() && begins_entry(actions.front());
  if (joined && joined_.insert(block.replica).second) {
    later_.erase(block.replica);
    if (has_rest_until(first, actions.front().batch))
      later_.insert(block.replica);
  }
  if (is_later && actions.empty() && !joined_.contains(block.replica))
    later_.insert(block.replica);
  const bool may_be_gone = is_later || facts.lost.contains(block.replica);
  if (may_be_gone && !has_saved(actions, facts.last))
    lost_.insert(block.replica);
}

void RecordedLives::check(const std::vector<Action>& actions,
                          int replica) const {
  if (!plan_.blocks.front().exchange.agrees) return;
  for (const Action& action : actions)
    if (action.op == Op::save && !agree_before(actions, action.batch))
      throw UserError(
          "{}: replica {} was lost, and came back where the run was continued "
          "after turn {}: nothing records what it began with",
          folder_, replica, action.batch);
}

/// Takes out the last action of a life where it waits for a message that was
/// never sent: the seat had found that its neighbour was gone. Returns whether
/// there was one.
bool RecordedLives::take_out_vain(const BlockPlan& block,
                                  Schedule& schedule) const {
  std::vector<Action>& actions = by_block(schedule, block.seat());
  std::vector<LifePart> parts = parts_of(actions);
  if (!lost_.contains(block.replica) && !parts.empty()) parts.pop_back();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const auto last =
        actions.begin() + static_cast<std::ptrdiff_t>(part->end) - 1;
    const std::vector<Transfer> needs = needs_of(plan_, block.seat(), *last);
    const auto is_sent = [&](const Transfer& need) {
      const Actions its =
          part_joined_at(part->joined, by_block(schedule, need.from));
      return std::any_of(its.begin(), its.end(), [&](const Action& action) {
        const auto sent = yields_of(plan_, need.from, action);
        return std::find(sent.begin(), sent.end(), need) != sent.end();
      });
    };
    if (std::all_of(needs.begin(), needs.end(), is_sent)) continue;
    actions.erase(last);
    return true;
  }
  return false;
}

/// Completes the end of each life at the seat, by the loss that belongs to it.
void RecordedLives::complete(const BlockPlan& block,
                             std::vector<Action>& actions,
                             const RunFacts& facts) {
  SaidLosses losses;
  for (std::size_t i = 0; i < losses_.size(); ++i)
    if (losses_[i].block == block.block && losses_[i].replica == block.replica)
      losses.emplace_back(&facts.losses[i], &losses_[i]);
  auto next = losses.begin();
  int entries = 0;
  std::vector<Action> all;
  const Actions recorded = actions;
  for (const LifePart& each : parts_of(recorded)) {
    const Actions part = each.of(recorded);
    const Actions rest = recorded.subspan(each.end);
    all.insert(all.end(), part.begin(), part.end());
    if (begins_entry(part.front())) ++entries;
    if (rest.empty() && !lost_.contains(block.replica)) break;
    const auto found = loss_of(part, rest, {next, losses.end()});
    if (found == losses.end()) {
      if (last_rest(part) < facts.last) refuse_unsaid(block);
      if (is_cut_short(part, nullptr)) all.pop_back();
      continue;
    }
    const auto& [said, noted] = *found;
    next = found + 1;
    const bool is_cut = is_cut_short(part, said);
    if (is_cut) all.pop_back();
    // One whose entry didn't come to the centre had done nothing.
    if (is_cut && part.size() == 1 && begins_entry(part.front()))
      --entries;
    else
      noted->life = entries;
    const std::vector<Action> more = not_told_in(part, *said);
    all.insert(all.end(), more.begin(), more.end());
  }
  actions = std::move(all);
}

void RecordedLives::refuse_unsaid(const BlockPlan& block) const {
  throw UserError(
      "{}: replica {} was lost, and nothing records what the centre of block "
      "{} had served it by then: the run is of a Sluice whose centres didn't "
      "say so",
      folder_, block.replica, block.block);
}

}  // namespace sluice
