#pragma once

#include <cstdint>

namespace sluice::planner {

/// Measured seconds in which one thread of this machine adds up so many bytes
/// of each of so many replicas, the least of a few times.
double seconds_of_sum(double bytes, std::int64_t replicas);

}  // namespace sluice::planner
