#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "lib/schedules/simulation/simulation.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice {

/// Measures a simulation on its way, without its timeline: the memory that it
/// takes doesn't grow with the number of turns.
class SpeedMeter {
 public:
  /// For the turns [first_turn, end_turn), as speed_of() has them. The plan
  /// must outlive the meter.
  SpeedMeter(const RunPlan& plan, const Costs& costs, std::int64_t first_turn,
             std::int64_t end_turn);

  /// What all seats have done until now.
  struct Totals {
    std::vector<double> busy = {};  ///< seconds, index seat - 1
    double bytes = 0;               ///< sent between blocks
  };

  /// Adds the next action of the simulation.
  void add(const TimedAction& timed);
  const Totals& totals() const { return totals_; }
  /// Speed of the turns, of which all actions have been added.
  Speed speed() const;
  /// Speed of turns that repeat: what was done in so many of them, between two
  /// totals, in so many seconds.
  Speed speed_between(const Totals& before, const Totals& after, double seconds,
                      std::int64_t turns) const;

 private:
  struct Interval {
    double start = 0;
    double end = 0;
  };
  /// The actions of a seat that begin before the window is known to, or end
  /// after it may.
  struct Open {
    std::deque<Interval> intervals = {};
    double inside = 0;          ///< seconds of the others in the window
    bool is_in_window = false;  ///< has done an action of the first turn
  };
  double seconds_inside(const Interval& interval) const;
  void close(Open& open) const;
  Speed with_totals(Speed speed, double bytes, double seconds,
                    std::int64_t turns) const;

  const RunPlan& plan_;
  Costs given_;
  Costs costs_;  // by seat
  std::int64_t first_turn_;
  std::int64_t end_turn_;
  double start_ = 0;  // of the window, as far as is known
  double end_ = 0;
  double bytes_ = 0;  // of the turns
  std::size_t seats_before_window_;
  std::vector<Open> open_;  // by seat
  Totals totals_;
};

}  // namespace sluice
