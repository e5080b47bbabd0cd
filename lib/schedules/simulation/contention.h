#pragma once

#include <vector>

#include "lib/schedules/simulation/simulation.h"

namespace sluice {

/// The part of a block's computing, 0..1, during which the other cores that it
/// shares compute too: 0.5 when one of two others does all the time. Index k-1;
/// 0 for a block that shares none.
std::vector<double> crowding_of(const std::vector<TimedAction>& timeline,
                                const Costs& costs, std::size_t blocks);

/// The costs at which a schedule settles whose blocks slow each other down: an
/// action of a block with crowding p takes Costs::blocks and p times what
/// Costs::beside has more. Found by simulating steady turns, a few times over.
Costs settled(const RunPlan& plan, const Costs& costs,
              const std::vector<Capacity>& capacities);

}  // namespace sluice
