// The replay buffers between simulated blocks that run free.
#include <algorithm>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {

void Simulation::fill_buffer(int block, double now) {
  SimulatedChannel& below = by_block(up_, block - 1);
  while (!below.queue.empty() &&
         below.queue.front().transfer.kind == MessageKind::activation &&
         below.queue.front().arrival <= now && below.buffer->has_room()) {
    write_buffer(block, now);
  }
}

void Simulation::write_buffer(int block, double now) {
  SimulatedChannel& below = by_block(up_, block - 1);
  const SimulatedChannel::QueuedTransfer first = below.queue.front();
  if (below.queue.size() == below.capacity)
    below.room_since = std::max(first.arrival, below.made_room);
  below.buffer->write({.batch = first.transfer.batch});
  below.pop(costs_, now);
}

/// Takes as many batches as the record says; an evaluation comes behind all of
/// them.
void Simulation::take_told(int block, double now, const Action& action) {
  const SimulatedChannel& below = by_block(up_, block - 1);
  const auto wants_more = [&] {
    return action.op == Op::forward ? below.buffer->written() < action.arrived
                                    : action.op == Op::evaluate &&
                                          below.queue.front().transfer.kind ==
                                              MessageKind::activation;
  };
  while (!below.queue.empty() && wants_more()) write_buffer(block, now);
}

/// Reads the block's replay buffer, when it begins an action.
void Simulation::read_buffer(int block, double now, Action& action) {
  if (buffered_.empty()) return;
  const std::vector<BlockPlan>& blocks = plan(action.phase).blocks;
  for (const int each : buffered_)
    if (by_block(blocks, each).free.inbox_below.buffer && !is_told(each))
      fill_buffer(each, now);
  if (!by_block(blocks, block).free.inbox_below.buffer) return;
  const bool is_read = action.op == Op::forward;
  const bool is_recorded = action.arrived > 0;
  if (is_recorded || (is_told(block) && action.op == Op::evaluate))
    take_told(block, now, action);
  else if (is_read)
    fill_buffer(block, now);
  if (!is_read) return;
  SimulatedChannel& below = by_block(up_, block - 1);
  SLUICE_CHECK(below.buffer->read(), "block {} reads an empty buffer", block);
  action.arrived = below.buffer->written();
  below.made_room = now;
  if (!is_recorded) fill_buffer(block, now);
}

}  // namespace sluice
