// What keeps simulated blocks from acting, in words.
#include <algorithm>

#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/schedules/op_table.h"
#include "lib/schedules/simulation.h"

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
  const std::string action = to_text(lane.actions.front());
  const std::string missing = lane.ledger.lacks(lane.actions.front());
  if (!missing.empty())
    return {block,
            fmt::format("block {} ({}) lacks {}", block, action, missing)};
  if (!is_its_turn(block))
    return {comes_before(block),
            fmt::format("block {} ({}) waits for block {}, which its executor "
                        "does first",
                        block, action, comes_before(block))};
  if (const int other = behind(block))
    return {other, fmt::format("block {} ({}) waits at the barrier for block "
                               "{}",
                               block, action, other)};
  if (!input_since(block) && lane.actions.front().arrived > 0)
    return {block - 1,
            fmt::format("block {} ({}) reads when {} messages of block {} are "
                        "written into the buffer between them, and there are "
                        "{}",
                        block, action, lane.actions.front().arrived, block - 1,
                        by_block(up_, block - 1).buffer->written())};
  if (!input_since(block))
    return {block - 1,
            fmt::format("block {} ({}) waits for anything that block {} writes "
                        "into the buffer between them",
                        block, action, block - 1)};
  for (const Transfer& need :
       needs_of(plan_of(lane), block, lane.actions.front())) {
    const Queued* first = head_of(channel(need), need);
    if (first == nullptr)
      return {need.from, fmt::format("block {} ({}) waits for {} of block {}",
                                     block, action, text_of(need), need.from)};
    const Transfer& head = first->transfer;
    if (head != need)
      return {
          block,
          fmt::format("block {} ({}) wants {} of block {}, but {} comes "
                      "first",
                      block, action, text_of(need), need.from, text_of(head))};
  }
  for (const Transfer& yield :
       yields_of(plan_of(lane), block, lane.actions.front())) {
    const Direction& to = channel(yield);
    if (!room_for(yield))
      return {yield.to,
              fmt::format("block {} ({}) waits until block {} has taken one of "
                          "{} messages",
                          block, action, yield.to, to.capacity)};
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
      story += fmt::format("; block {} has nothing more to do",
                           next == 0 ? block : next);
      return story;
    }
    block = next == 0 ? block : next;
  }
  return story;
}

}  // namespace sluice
