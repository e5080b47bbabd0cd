#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/schedules/simulation/simulation.h"

namespace sluice {

/// What the blocks do (index k-1): each gets its next grant when it has carried
/// out the one before. Throws UserError when they wait for each other.
std::vector<std::vector<Action>> run_through(const std::vector<Grant>& grants,
                                             std::size_t blocks,
                                             Simulation& simulation);

/// What blocks that run free do (index k-1) when their run goes back to the
/// checkpoint of a turn: the actions before that checkpoint, which is left out,
/// under `costs`, and those after it, up to the end of `grant`, under `others`.
/// They had gone on when the run was interrupted, each as far as it came.
/// Throws UserError when the run, or the record of both parts, waits for
/// itself.
std::vector<std::vector<Action>> actions_of_interrupted(
    const RunPlan& plan, const std::vector<Capacity>& capacities,
    const Costs& costs, const Costs& others, std::int64_t turn,
    const Grant& grant);

}  // namespace sluice
