#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "lib/schedules/simulation/simulation.h"
#include "lib/schedules/simulation/speed_meter.h"

namespace sluice {

/// Number of turns after which the programs and the costs of a plan are the
/// same again; 0: they never are, or a clock decides what is done.
std::int64_t turns_that_repeat(const RunPlan& plan, const Costs& costs);

/// Finds out when a simulation begins to repeat itself: when, but for the
/// numbers of turns and the time, it is in a state in which it was before. From
/// there on everything happens again after as many turns and seconds.
class Repetition {
 public:
  /// Looks for periods of which a whole number fits in `window` turns, that
  /// have begun by `last_turn`.
  Repetition(const RunPlan& plan, const Costs& costs, std::int64_t last_turn,
             std::int64_t window);

  struct Period {
    std::int64_t turns = 0;
    /// Times of virtual time at which it begins and ends: all actions that
    /// start earlier have been done then.
    double begin = 0;
    double end = 0;
    SpeedMeter::Totals before = {};  ///< those that after() was given
  };
  /// The period that ends with the action that the simulation has just done, if
  /// one does. `totals` are kept for its begin.
  std::optional<Period> after(const TimedAction& timed,
                              const Simulation& simulation,
                              const SpeedMeter::Totals& totals = {});

 private:
  struct Moment {
    std::int64_t turn = 0;
    double time = 0;
    SimulationState state = {};
    SpeedMeter::Totals totals = {};
  };
  std::optional<Period> period_to(const Moment& now) const;

  std::int64_t step_;        // turns between two moments; 0: none is looked at
  std::int64_t first_turn_;  // from which on the programs repeat
  std::int64_t last_turn_;
  std::int64_t window_;
  std::int64_t turn_ = 0;  // the latest of the first seat
  std::deque<Moment> moments_;
};

}  // namespace sluice
