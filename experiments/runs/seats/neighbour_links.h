#pragma once

#include <map>
#include <vector>

#include "lib/base/messages/channel.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// The messages that the link between two seats holds.
Capacity capacity_between(const RunPlan& plan,
                          const std::vector<Capacity>& capacities,
                          const SeatPair& seats);

/// The link of a seat on one side, made of those with all neighbours there, by
/// seat; without ends where it has none. That of several deals out batches in
/// their order (dealt_link()).
Link link_to_neighbours(const RunPlan& plan, int seat, Direction side,
                        std::map<int, Link> links);

}  // namespace sluice
