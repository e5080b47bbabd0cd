#include "lib/schedules/simulation/speed.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "lib/schedules/simulation/repetition.h"
#include "lib/schedules/simulation/speed_meter.h"

namespace sluice {
namespace {

constexpr std::int64_t kWarmUp = 120;
constexpr std::int64_t kWindow = 840;  // the least multiple of 1 .. 8

}  // namespace

double bubble_of(const Speed& speed) {
  const double busy =
      std::accumulate(speed.utilisation.begin(), speed.utilisation.end(), 0.);
  const auto executors = speed.executors > 0
                             ? static_cast<double>(speed.executors)
                             : static_cast<double>(speed.utilisation.size());
  return std::max(0., 1 - busy / executors);  // of a sum that was rounded
}

Speed speed_of(const std::vector<TimedAction>& timeline, const RunPlan& plan,
               const Costs& costs, std::int64_t first_turn,
               std::int64_t end_turn) {
  SpeedMeter meter(plan, costs, first_turn, end_turn);
  for (const TimedAction& timed : timeline) meter.add(timed);
  return meter.speed();
}

Speed steady_speed(const RunPlan& plan, const Costs& costs,
                   const std::vector<Capacity>& capacities) {
  constexpr std::int64_t kEnd = kWarmUp + kWindow;
  // The turns after the window keep the blocks busy that are ahead in it.
  Simulation simulation =
      granted(plan, costs, capacities, Grant{.end_turn = kEnd + kWarmUp});
  SpeedMeter meter(plan, costs, kWarmUp, kEnd);
  Repetition repetition(plan, costs, kWarmUp, kWindow);
  while (const std::optional<TimedAction> timed = simulation.next()) {
    meter.add(*timed);
    if (const auto period =
            repetition.after(*timed, simulation, meter.totals()))
      return meter.speed_between(period->before, meter.totals(),
                                 period->end - period->begin, period->turns);
  }
  check_end(simulation);
  return meter.speed();
}

}  // namespace sluice
