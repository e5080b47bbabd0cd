// State of a simulation, from which all that it will do follows.
#include <algorithm>
#include <limits>

#include "lib/base/by_block.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice {
namespace {

/// Makes the numbers of a state, relative to a turn and a time.
class StateWriter {
 public:
  StateWriter(std::int64_t turn, double time) : turn_(turn) {
    state_.time = time;
  }

  void place(std::int64_t number) { state_.places.push_back(number); }
  void time(double time) { state_.times.push_back(time - state_.time); }
  void turn(std::int64_t turn) { place(turn - turn_); }
  void batch(std::int64_t batch, const MicroBatches& cut) {
    place(batch - turn_ * cut.count * cut.numbered());
  }

  SimulationState state_;

 private:
  std::int64_t turn_;
};

}  // namespace

std::optional<std::int64_t> Simulation::turn_of_next(int seat) const {
  const Lane& lane = by_block(lanes_, seat);
  if (lane.actions.empty()) return std::nullopt;
  return lane.actions.front().turn;
}

std::int64_t Simulation::least_turn() const {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Lane& lane : lanes_)
    if (!lane.actions.empty())
      least = std::min(least, lane.actions.front().turn);
  return least;
}

SimulationState Simulation::state(std::int64_t turn) const {
  const RunPlan& plan = plans_.front();
  const MicroBatches& cut = plan.blocks.front().micro_batches;
  StateWriter writer(turn, lanes_.front().clock);
  for (const BlockPlan& block : plan.blocks) {
    const Lane& lane = by_block(lanes_, block.seat());
    const Lane& first = by_block(lanes_, block.block);  // replica 1
    writer.time(lane.clock);
    writer.place(lane.published - first.settled);
    writer.place(lane.settled - first.settled);
    writer.place(std::ssize(lane.actions) > 0);
    if (lane.actions.empty()) continue;
    const Action& next = lane.actions.front();
    writer.place(static_cast<std::int64_t>(next.op));
    writer.place(static_cast<std::int64_t>(next.kind));
    writer.place(next.round);
    writer.turn(next.turn);
    writer.batch(next.batch, cut);
    if (!lane.places.empty())
      writer.place(lane.places.front() -
                   done_[static_cast<std::size_t>(executor_of(block.seat()))]);
  }
  const auto write_channel = [&](const SimulatedChannel& channel, int sender) {
    // Times before that at which the sender is free don't matter to it.
    const double free = by_block(lanes_, sender).clock;
    writer.time(std::max(free, channel.room_since));
    writer.time(std::max(free, channel.free_since));
    writer.place(std::ssize(channel.queue));
    for (const SimulatedChannel::QueuedTransfer& each : channel.queue) {
      writer.place(static_cast<std::int64_t>(each.transfer.kind));
      writer.place(each.transfer.round);
      writer.batch(each.transfer.batch, cut);
      writer.time(each.arrival);
    }
  };
  int link = 0;
  for (const SeatPair& seats : links_of(plan)) {
    ++link;
    write_channel(by_block(up_, link), seats.lower);
    write_channel(by_block(down_, link), seats.upper);
  }
  for (const auto& [key, meeting] : meetings_) {
    writer.place(key.first);
    writer.place(key.second - by_block(lanes_, key.first).settled);
    writer.place(meeting.published);
    writer.place(meeting.settled);
    writer.time(meeting.all_published);
    for (const auto& [replica, time] : meeting.published_at) {
      writer.place(replica);
      writer.time(time);
    }
  }
  for (std::vector<double> cores : cores_) {
    std::sort(cores.begin(), cores.end());
    for (const double since : cores) writer.time(since);
  }
  if (has_barriers_) {
    writer.place(stage_ - 2 * turn);
    writer.time(stage_start_);
    writer.time(latest_end_);
  }
  return writer.state_;
}

}  // namespace sluice
