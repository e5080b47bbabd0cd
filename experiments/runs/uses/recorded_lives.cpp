#include "experiments/runs/uses/recorded_lives.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>

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

/// Whether they end before all others have come to a rest.
bool end_in_rest(Actions actions) {
  return !actions.empty() && actions.back().op == Op::exchange &&
         actions.back().kind == ExchangeKind::agreement;
}

/// Whether they end before others of a quorum have come.
bool end_in_quorum(Actions actions, const ReplicaExchange& exchange) {
  return exchange.quorum.is_there() && !actions.empty() &&
         (end_at_centre(actions) ||
          (actions.back().op == Op::settle &&
           actions.back().kind == exchange.of_window()));
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

/// Actions from the first one on that is of a rest at that turn or later, or
/// begins there.
Actions since_rest(Actions actions, std::int64_t turn) {
  const auto first =
      std::find_if(actions.begin(), actions.end(), [&](const Action& action) {
        return (action.kind == ExchangeKind::agreement ||
                begins_entry(action)) &&
               action.batch >= turn;
      });
  return actions.subspan(static_cast<std::size_t>(first - actions.begin()));
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

/// Numbers from 1 to the last one that are not among them.
std::vector<std::int64_t> left_out_of(const std::set<std::int64_t>& named) {
  std::vector<std::int64_t> missing;
  std::int64_t next = 1;
  for (const std::int64_t place : named) {
    for (; next < place; ++next) missing.push_back(next);
    ++next;
  }
  return missing;
}

}  // namespace

/// What a replica did at a block until it was lost, and the places of the
/// centre that belong to its end.
struct RecordedLives::Life {
  int seat = 1;
  int replica = 1;
  std::size_t end = 0;   ///< one past its last action, among those of the seat
  bool is_open = false;  ///< it ended in an exchange, which may be served
  bool is_counted = false;  ///< its loss has a place
  bool is_last = true;      ///< none took the place after it
  // The places may be between these:
  std::int64_t after = 0;
  std::int64_t before = kNoPlace;
  std::vector<std::int64_t> places = {};

  std::size_t most() const {
    return (is_open ? 1U : 0U) + (is_counted ? 1U : 0U);
  }
  bool may_have(std::int64_t place) const {
    return place > after && place < before && places.size() < most();
  }
};

bool agrees_before(const std::vector<Action>& actions, std::int64_t turn) {
  return std::any_of(actions.begin(), actions.end(), [&](const Action& action) {
    return action.kind == ExchangeKind::agreement && action.batch == turn;
  });
}

RecordedLives::RecordedLives(const RunPlan& plan, Schedule& schedule,
                             const RunFacts& facts, const std::string& folder)
    : plan_(plan), folder_(folder) {
  for (const BlockPlan& block : plan.blocks)
    look_at(block, by_block(schedule, block.seat()), schedule.front(), facts);
  const auto has_vain = [&](const BlockPlan& block) {
    return take_out_vain(block, schedule);
  };
  while (std::any_of(plan.blocks.begin(), plan.blocks.end(), has_vain)) {
  }
  for (int block = 1; block <= plan.depth(); ++block)
    complete(schedule, block, facts.counts_losses);
  std::sort(losses_.begin(), losses_.end(),
            [](const RecordedLoss& one, const RecordedLoss& other) {
              return one.place < other.place;
            });
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
  if (!actions.empty() &&
      std::any_of(actions.begin() + 1, actions.end(), begins_entry))
    again_.insert(block.replica);
  if (!is_later && actions.empty() && facts.lost.contains(block.replica))
    idle_.insert(block.seat());
  const bool may_be_gone = is_later || facts.lost.contains(block.replica);
  if (may_be_gone && !has_saved(actions, facts.last))
    lost_.insert(block.replica);
}

void RecordedLives::check(const std::vector<Action>& actions,
                          int replica) const {
  if (!plan_.blocks.front().exchange.agrees) return;
  for (const Action& action : actions)
    if (action.op == Op::save && !agrees_before(actions, action.batch))
      throw UserError(
          "{}: replica {} was lost, and came back where the run was continued "
          "after turn {}: nothing records what it began with",
          folder_, replica, action.batch);
}

void RecordedLives::refuse_waiting(int block) const {
  throw UserError(
      "{}: a replica was lost while it waited at the centre of block {}, and "
      "nothing records whether that took what it brought",
      folder_, block);
}

/// What others brought before the last rest of a life came before its end, and
/// what they brought after the next one came later.
std::vector<RecordedLives::Life> RecordedLives::ended_lives(
    const Schedule& schedule, const std::vector<BlockPlan>& of_block) const {
  std::vector<Life> all;
  const auto add = [&](const BlockPlan& block, Actions mine, Actions rest,
                       std::size_t end) {
    const std::int64_t last = last_rest(mine);
    Life life{.seat = block.seat(),
              .replica = block.replica,
              .end = end,
              .is_open = end_at_centre(mine),
              .is_last = rest.empty(),
              .after = last_place(mine),
              .before = first_place(rest)};
    for (const BlockPlan& other : of_block) {
      const Actions its = by_block(schedule, other.seat());
      const Actions late = since_rest(its, last);
      if (last != kNoTurn && !late.empty())
        life.after = std::max(life.after,
                              last_place(its.first(its.size() - late.size())));
      life.before =
          std::min(life.before, first_place(since_rest(its, last + 1)));
    }
    all.push_back(std::move(life));
  };
  for (const BlockPlan& block : of_block) {
    const Actions actions = by_block(schedule, block.seat());
    for (const LifePart& part : parts_of(actions)) {
      const Actions rest = actions.subspan(part.end);
      if (!rest.empty() || lost_.contains(block.replica))
        add(block, part.of(actions), rest, part.end);
    }
    if (idle_.contains(block.seat())) add(block, {}, {}, 0);
  }
  return all;
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

/// Gives each place to the one life that may have it.
void RecordedLives::find_places(std::vector<std::int64_t> missing,
                                std::vector<Life>& lives) const {
  const auto may_have = [](std::int64_t place) {
    return [place](const Life& life) { return life.may_have(place); };
  };
  while (!missing.empty()) {
    const auto clear =
        std::find_if(missing.begin(), missing.end(), [&](std::int64_t place) {
          return std::count_if(lives.begin(), lives.end(), may_have(place)) ==
                 1;
        });
    if (clear == missing.end())
      refuse_waiting(
          by_block(plan_.blocks, lives.empty() ? 1 : lives[0].seat).block);
    std::find_if(lives.begin(), lives.end(), may_have(*clear))
        ->places.push_back(*clear);
    missing.erase(clear);
  }
  for (Life& life : lives) std::sort(life.places.begin(), life.places.end());
}

/// A loss has the last place that belongs to the life; it has none where
/// nothing was served after it.
void RecordedLives::take_loss(int block, Life& life) {
  const bool is_at_end = life.is_last && life.before == kNoPlace;
  if (is_at_end && life.is_open && life.places.size() == 1)
    refuse_waiting(block);
  if (!life.places.empty()) {
    losses_.push_back({block, life.replica, life.places.back()});
    life.places.pop_back();
  } else if (!is_at_end) {
    throw UserError(
        "{}: replica {} was lost, and nothing records since when the others "
        "mixed without it",
        folder_, life.replica);
  }
}

/// A centre that serves each by itself has served the last exchange, or not: it
/// counts those that it serves. One of a quorum may have merged it later.
void RecordedLives::complete(Schedule& schedule, int block,
                             bool counts_losses) {
  std::vector<BlockPlan> of_block;
  std::set<std::int64_t> named;
  for (const BlockPlan& each : plan_.blocks) {
    if (each.block != block) continue;
    of_block.push_back(each);
    for (const Action& action : by_block(schedule, each.seat()))
      if (place_of(action) > 0) named.insert(place_of(action));
  }
  std::vector<Life> lives = ended_lives(schedule, of_block);
  for (Life& life : lives) {
    life.is_counted = counts_losses;
    const Actions until =
        Actions(by_block(schedule, life.seat)).first(life.end);
    if (end_in_quorum(until, of_block.front().exchange) ||
        (counts_losses && end_in_rest(until)))
      refuse_waiting(block);
  }
  const bool is_clear =
      std::none_of(lives.begin(), lives.end(),
                   [](const Life& life) { return life.most() > 0; });
  if (is_clear) return;
  find_places(left_out_of(named), lives);
  // From the last one on, since each changes its seat's actions.
  for (auto life = lives.rbegin(); life != lives.rend(); ++life) {
    if (counts_losses) take_loss(block, *life);
    if (!life->is_open) continue;
    std::vector<Action>& actions = by_block(schedule, life->seat);
    const auto end = actions.begin() + static_cast<std::ptrdiff_t>(life->end);
    if (life->places.empty()) {
      actions.erase(end - 1);
      continue;
    }
    Action served = *(end - 1);
    served.op = Op::settle;
    served.arrived = life->places.front();
    actions.insert(end, served);
  }
}

}  // namespace sluice
