#pragma once

#include <string>
#include <vector>

#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {

/// The timeline as text, a row per seat (the last one on top), a column per
/// `unit` seconds; an action of cost 0 is drawn in the column of its start.
/// Actions of kinds that cost nothing in this timeline share a cell: "B0 U0".
std::string draw_timeline(const std::vector<TimedAction>& timeline,
                          const SeatNames& seats, double unit);

/// The actions of each block in order, a line per block: what
/// actions_from_text() reads.
std::string list_actions(const std::vector<std::vector<Action>>& actions);

}  // namespace sluice
