// Reasons that keep simulated blocks from acting, in words.
#include <algorithm>

#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/schedules/plan/op_table.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {
namespace {

std::string text_of(const Transfer& transfer) {
  return fmt::format("{} {}", name_of(transfer.kind),
                     to_text(BatchRound{transfer.batch, transfer.round}));
}

}  // namespace

std::pair<int, std::string> Simulation::waits_for(int block) const {
  const Lane& lane = by_block(lanes_, block);
  if (lane.actions.empty()) return {0, ""};
  const Action& next = lane.actions.front();
  const auto name = [&](int seat) {
    return name_of_seat(plans_.front(), seat);
  };
  const std::string me = fmt::format("{} ({})", name(block), to_text(next));
  const std::string missing = lane.ledger.lacks(next);
  if (!missing.empty()) return {block, fmt::format("{} lacks {}", me, missing)};
  if (!is_its_turn(block))
    return {comes_before(block),
            fmt::format("{} waits for {}, which its executor does first", me,
                        name(comes_before(block)))};
  if (const int other = behind(block))
    return {other,
            fmt::format("{} waits at the barrier for {}", me, name(other))};
  if (!settled_since(block)) {
    const int other = awaited_replica(block);
    return {other, fmt::format("{} waits for what {} shall exchange with it",
                               me, name(other))};
  }
  if (const int other = at_rest(block))
    return {other, fmt::format("{} goes on when {} has evaluated or saved", me,
                               name(other))};
  if (!input_since(block) && next.arrived > 0)
    return {block - 1,
            fmt::format("{} reads when {} messages of {} are written into the "
                        "buffer between them, and there are {}",
                        me, next.arrived, name(block - 1),
                        by_block(up_, block - 1).buffer->written())};
  if (!input_since(block))
    return {block - 1,
            fmt::format("{} waits for anything that {} writes into the buffer "
                        "between them",
                        me, name(block - 1))};
  for (const Transfer& need : needs_of(plan_of(lane), block, next)) {
    const SimulatedChannel::QueuedTransfer* first =
        channel(need).head_for(need);
    if (first == nullptr)
      return {need.from, fmt::format("{} waits for {} of {}", me, text_of(need),
                                     name(need.from))};
    const Transfer& head = first->transfer;
    if (head != need)
      return {block,
              fmt::format("{} wants {} of {}, but {} comes first", me,
                          text_of(need), name(need.from), text_of(head))};
  }
  for (const Transfer& yield : yields_of(plan_of(lane), block, next)) {
    const SimulatedChannel& to = channel(yield);
    if (!to.room_for(yield, is_told(yield.from)))
      return {yield.to,
              fmt::format("{} waits until {} has taken one of {} messages", me,
                          name(yield.to), to.capacity)};
  }
  return {0, ""};
}

std::string Simulation::stuck() const {
  int block = 1;
  while (block < std::ssize(lanes_) && idle(block)) ++block;
  std::vector<int> path;
  std::string story;
  while (std::find(path.begin(), path.end(), block) == path.end()) {
    path.push_back(block);
    const auto [next, reason] = waits_for(block);
    story += (story.empty() ? "" : "; ") + reason;
    if (idle(next == 0 ? block : next)) {
      story +=
          fmt::format("; {} has nothing more to do",
                      name_of_seat(plans_.front(), next == 0 ? block : next));
      return story;
    }
    block = next == 0 ? block : next;
  }
  return story;
}

}  // namespace sluice
