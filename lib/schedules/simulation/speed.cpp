#include "lib/schedules/simulation/speed.h"

#include <algorithm>
#include <numeric>

#include "lib/base/by_block.h"
#include "lib/schedules/orders/executors.h"

namespace sluice {
namespace {

/// Seconds of an action that lie between two times.
double overlap(const TimedAction& timed, double start, double end) {
  return std::max(0., std::min(timed.end, end) - std::max(timed.start, start));
}

constexpr std::int64_t kWarmUp = 120;
constexpr std::int64_t kWindow = 840;  // the least multiple of 1 .. 8

}  // namespace

double bubble_of(const Speed& speed) {
  const double busy =
      std::accumulate(speed.utilisation.begin(), speed.utilisation.end(), 0.);
  const auto executors = speed.executors > 0
                             ? static_cast<double>(speed.executors)
                             : static_cast<double>(speed.utilisation.size());
  return 1 - busy / executors;
}

Speed speed_of(const std::vector<TimedAction>& timeline, const RunPlan& plan,
               const Costs& costs, std::int64_t first_turn,
               std::int64_t end_turn) {
  double start = 0;
  double end = 0;
  for (const TimedAction& timed : timeline) {
    const std::int64_t turn = timed.action.turn;
    if (turn < first_turn) start = std::max(start, timed.end);
    if (turn < end_turn) end = std::max(end, timed.end);
  }
  const Costs seats = by_seat(costs, plan);
  Speed speed{.utilisation = std::vector<double>(plan.blocks.size()),
              .executors = executors_of(plan)};
  if (end <= start) return speed;
  for (const TimedAction& timed : timeline)
    by_block(speed.utilisation, timed.seat) +=
        overlap(timed, start, end) / (end - start);
  speed.seconds_per_turn =
      (end - start) / static_cast<double>(end_turn - first_turn);
  for (const TimedAction& timed : timeline)
    if (timed.action.turn >= first_turn && timed.action.turn < end_turn)
      for (const Transfer& sent : yields_of(plan, timed.seat, timed.action))
        speed.bytes_per_turn += bytes_of(seats, sent);
  speed.bytes_per_turn /= static_cast<double>(end_turn - first_turn);
  speed.speed_up = plan.replicas * seconds_in_one_block(costs, plan) /
                   speed.seconds_per_turn;
  return speed;
}

Speed steady_speed(const RunPlan& plan, const Costs& costs,
                   const std::vector<Capacity>& capacities) {
  // The turns after the window keep the blocks busy that are ahead in it.
  const Grant grant{.end_turn = kWarmUp + kWindow + kWarmUp};
  return speed_of(simulate(plan, costs, capacities, grant), plan, costs,
                  kWarmUp, kWarmUp + kWindow);
}

}  // namespace sluice
