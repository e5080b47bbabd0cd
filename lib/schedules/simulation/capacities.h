#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/messages/channel.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// The least capacities without deadlock plus `slack` each, by number of the
/// link (links_of(), index n-1), found by simulating
/// a pipe that fills, some steady turns, an evaluation and the drain: larger
/// ones never hinder blocks in lockstep. Throws UserError with the cycle when
/// the plan would wait for itself whatever the capacities.
std::vector<Capacity> capacities_of(const RunPlan& plan, std::size_t slack);
/// Capacities that suffice in every phase of a timetable.
std::vector<Capacity> capacities_of(const Plans& plans, std::size_t slack);

/// As many turns as show a plan's whole life: the pipe filling, a steady state,
/// and the drain.
Grant sample_grant(const RunPlan& plan, std::int64_t steady_turns);

}  // namespace sluice
