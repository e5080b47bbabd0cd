#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lib/engines/coordinator.h"
#include "lib/schedules/simulation.h"
#include "lib/workers/worker.h"

namespace sluice {

/// Runs all workers (index k-1) in this thread, their actions in the order of
/// virtual time, until the coordinator grants no more. Real numerics; with
/// zero costs, the sequential reference. The workers' channels must hold at
/// least `capacities` messages. Returns what the virtual clock shows at the
/// end; `watch`, when given, sees every action with its times. Where a run is
/// continued, its clock goes on from `saved`.
double run_virtual(
    const std::vector<std::unique_ptr<Worker>>& workers, const Plans& plans,
    const std::vector<Capacity>& capacities, const Costs& costs,
    Coordinator& coordinator,
    const std::function<void(const TimedAction&)>& watch = nullptr,
    const SavedClock& saved = {});

}  // namespace sluice
