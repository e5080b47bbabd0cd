#pragma once

#include <string_view>

#include "lib/metrics/records.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/tensors.h"
#include "lib/workers/seat_core.h"

namespace sluice {

/// Seat::state().
NamedTensors state_of(const SeatCore& seat);
/// Seat::restore().
void restore_seat(SeatCore& seat, const NamedTensors& weights,
                  const NamedTensors& state, std::string_view source);
/// Begins a run with what was restored, if anything: Seat::start().
void start_seat(SeatCore& seat, const Grant& first);

}  // namespace sluice
