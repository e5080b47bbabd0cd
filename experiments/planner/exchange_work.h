#pragma once

#include <cstdint>

#include "experiments/config/experiment.h"
#include "lib/schedules/simulation/costs.h"

namespace sluice::planner {

/// Measured: how long it takes to add up float32 tensors of so many bytes, one
/// of each of so many replicas, the least of a few times.
double seconds_of_sum(double bytes, std::int64_t replicas);

/// Adds to the seconds of the blocks, which are those of one replica alone (and
/// beside others), what the replicas' exchanges take on the CPU; what the links
/// take is not part of it. More than one replica.
void add_exchanges(const Experiment& experiment, Costs& costs);

}  // namespace sluice::planner
