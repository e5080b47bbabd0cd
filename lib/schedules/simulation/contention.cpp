#include "lib/schedules/simulation/contention.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/schedules/plan/op_table.h"
#include "lib/schedules/simulation/repetition.h"

namespace sluice {
namespace {

constexpr std::int64_t kTurns = 120;
constexpr int kRounds = 6;
/// Turns into which all periods fit evenly that Repetition looks for.
constexpr std::int64_t kAnyPeriod = 840 * 9 * 11;

/// An action begins (+1) or ends (-1) on a core that blocks share.
struct Change {
  double time = 0;
  int step = 0;
  int block = 0;

  bool operator<(const Change& other) const {
    return std::tie(time, step) < std::tie(other.time, other.step);
  }
};

std::vector<Change> changes_on(const SharedCores& shared,
                               const std::vector<TimedAction>& timeline,
                               std::size_t blocks) {
  std::vector<bool> is_here(blocks);
  for (const int block : shared.blocks)
    is_here.at(static_cast<std::size_t>(block) - 1) = true;
  std::vector<Change> changes;
  for (const TimedAction& timed : timeline) {
    if (!by_block(is_here, timed.seat) || timed.end <= timed.start) continue;
    changes.push_back({timed.start, 1, timed.seat});
    changes.push_back({timed.end, -1, timed.seat});
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

double value_between(double alone, double beside, double crowding) {
  return alone + crowding * std::max(0., beside - alone);
}

BlockCosts costs_between(const BlockCosts& alone, const BlockCosts& beside,
                         double crowding) {
  BlockCosts costs = alone;
  for (const OpRow& row : op_rows())
    costs.seconds[row.op] =
        value_between(alone.seconds[row.op], beside.seconds[row.op], crowding);
  costs.head = value_between(alone.head, beside.head, crowding);
  return costs;
}

/// The part of an action that lies between two times.
TimedAction clipped(TimedAction timed, double begin, double end) {
  timed.start = std::clamp(timed.start, begin, end);
  timed.end = std::clamp(timed.end, begin, end);
  return timed;
}

/// What blocks do in steady turns: in a period of the timetable, or where it
/// has none, in all of so many turns.
std::vector<TimedAction> steady_turns(const RunPlan& plan, const Costs& costs,
                                      const std::vector<Capacity>& capacities) {
  Simulation simulation =
      granted(plan, costs, capacities, Grant{.end_turn = kTurns});
  Repetition repetition(plan, costs, kTurns, kAnyPeriod);
  std::vector<TimedAction> timeline;
  while (const std::optional<TimedAction> timed = simulation.next()) {
    timeline.push_back(*timed);
    const auto period = repetition.after(*timed, simulation);
    if (!period) continue;
    for (TimedAction& each : timeline)
      each = clipped(std::move(each), period->begin, period->end);
    return timeline;
  }
  check_end(simulation);
  return timeline;
}

}  // namespace

std::vector<double> crowding_of(const std::vector<TimedAction>& timeline,
                                const Costs& costs, std::size_t blocks) {
  std::vector<double> busy(blocks);
  std::vector<double> crowded(blocks);
  for (const SharedCores& shared : costs.shared) {
    if (shared.cores < 2) continue;
    std::vector<int> computing;
    double now = 0;
    for (const Change& change : changes_on(shared, timeline, blocks)) {
      const double others = static_cast<double>(computing.size()) - 1;
      const double part =
          std::min(1., others / static_cast<double>(shared.cores - 1));
      for (const int block : computing) {
        by_block(busy, block) += change.time - now;
        by_block(crowded, block) += part * (change.time - now);
      }
      now = change.time;
      if (change.step > 0)
        computing.push_back(change.block);
      else
        std::erase(computing, change.block);
    }
  }
  for (std::size_t k = 0; k < blocks; ++k)
    if (busy[k] > 0) crowded[k] /= busy[k];
  return crowded;
}

Costs settled(const RunPlan& plan, const Costs& costs,
              const std::vector<Capacity>& capacities) {
  if (costs.beside.empty()) return costs;
  const std::size_t blocks = plan.blocks.size();
  std::vector<double> crowding(blocks);
  const Costs all = by_seat(costs, plan);
  Costs now = all;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<double> found =
        crowding_of(steady_turns(plan, now, capacities), now, blocks);
    // Half-way: or two schedules could follow from each other for ever.
    for (std::size_t k = 0; k < blocks; ++k) {
      crowding[k] = round == 0 ? found[k] : (crowding[k] + found[k]) / 2;
      now.blocks[k] =
          costs_between(all.blocks.at(k), all.beside.at(k), crowding[k]);
    }
  }
  now.beside.clear();
  return now;
}

}  // namespace sluice
