#include "experiments/runs/seats/neighbour_links.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/messages/dealt_link.h"

namespace sluice {

Capacity capacity_between(const RunPlan& plan,
                          const std::vector<Capacity>& capacities,
                          const SeatPair& seats) {
  return by_block(capacities, link_between(plan, seats));
}

Link link_to_neighbours(const RunPlan& plan, int seat, Direction side,
                        std::map<int, Link> links) {
  const std::vector<int> seats = neighbours_of(plan, seat, side);
  if (seats.empty()) return {};
  if (seats.size() == 1) return std::move(links.at(seats.front()));
  std::vector<Link> all;
  all.reserve(seats.size());
  for (const int each : seats) all.push_back(std::move(links.at(each)));
  DealOrder order{.order = {},
                  .members = by_block(plan.blocks, seat).micro_batches.members};
  for (const int each : neighbours_in_turn(plan, seat, side))
    order.order.push_back(static_cast<std::size_t>(
        std::lower_bound(seats.begin(), seats.end(), each) - seats.begin()));
  return dealt_link(std::move(all), order);
}

}  // namespace sluice
