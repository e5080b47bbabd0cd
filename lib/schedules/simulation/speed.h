#pragma once

#include <cstdint>
#include <vector>

#include "lib/schedules/simulation/simulation.h"

namespace sluice {

/// Speed of a schedule, by its timeline.
struct Speed {
  double seconds_per_turn = 0;
  /// Index k-1: the part of the time in which the block computes, 0..1.
  std::vector<double> utilisation = {};
  /// Number of executors that the blocks are dealt out to; 0: one for each
  /// block.
  int executors = 0;
  /// Speed relative to one block that does all the work by back-propagation. 0
  /// when actions take no time.
  double speed_up = 0;
  /// Bytes that were sent over all boundaries, as Costs::bytes say.
  double bytes_per_turn = 0;
};

/// The part of their time in which the executors wait, on average: 0..1.
double bubble_of(const Speed& speed);

/// The speed over the turns [first_turn, end_turn): from when all blocks have
/// done the turns before them to when all have done these.
Speed speed_of(const std::vector<TimedAction>& timeline, const RunPlan& plan,
               const Costs& costs, std::int64_t first_turn,
               std::int64_t end_turn);

/// The speed of the steady state, which is simulated for so many turns that any
/// period of up to 8 turns fits in evenly, or until it has begun to repeat
/// itself (Repetition). Jitter is averaged over them.
Speed steady_speed(const RunPlan& plan, const Costs& costs,
                   const std::vector<Capacity>& capacities);

}  // namespace sluice
