#include "lib/schedules/simulation/simulated_channel.h"

#include <algorithm>
#include <iterator>

namespace sluice {

const SimulatedChannel::QueuedTransfer* SimulatedChannel::head_for(
    const Transfer& wanted) const {
  for (const QueuedTransfer& queued : queue) {
    // An activation on its way into a replay buffer doesn't hold up other
    // messages.
    const bool passes = buffer &&
                        queued.transfer.kind == MessageKind::activation &&
                        wanted.kind != MessageKind::activation;
    if (!passes) return &queued;
  }
  return nullptr;
}

std::optional<double> SimulatedChannel::room_for(const Transfer& sent,
                                                 bool is_told) const {
  // A record says what was dropped: there was room for the rest. Where messages
  // may be dropped, those need none.
  if (is_told && (buffer || waiting)) return 0;
  if (waiting && sent.kind == MessageKind::activation) return 0;
  if (waiting && !waiting->empty()) return std::nullopt;
  if (queue.size() < capacity) return room_since;
  const QueuedTransfer& first = queue.front();
  const bool moves_on = buffer && buffer->has_room() &&
                        first.transfer.kind == MessageKind::activation;
  if (!moves_on) return std::nullopt;
  return std::max({room_since, first.arrival, made_room});
}

std::optional<double> SimulatedChannel::written_since(
    std::int64_t count) const {
  const std::int64_t missing = count - buffer->written();
  if (missing < 0 || missing > std::ssize(queue)) return std::nullopt;
  if (missing == 0 && buffer->empty()) return std::nullopt;
  if (missing == 0) return 0;
  const QueuedTransfer& last = queue.at(static_cast<std::size_t>(missing) - 1);
  if (last.transfer.kind != MessageKind::activation) return std::nullopt;
  return last.arrival;
}

std::optional<std::int64_t> SimulatedChannel::send(const Costs& costs,
                                                   const Transfer& transfer,
                                                   double time, bool is_told) {
  const bool may_wait =
      waiting && !is_told && transfer.kind == MessageKind::activation;
  if (transfer.kind == MessageKind::activation &&
      dropped.contains(transfer.batch))
    return std::nullopt;
  const bool must_wait =
      may_wait && (queue.size() >= capacity || !waiting->empty());
  if (!must_wait) {
    put(costs, transfer, time);
    return std::nullopt;
  }
  if (const auto lost = waiting->enter({transfer, time}))
    return lost->transfer.batch;
  return std::nullopt;
}

void SimulatedChannel::pop(const Costs& costs, double now) {
  queue.pop_front();
  if (!waiting || waiting->empty()) return;
  const QueuedTransfer next = waiting->leave();
  put(costs, next.transfer, std::max(next.arrival, now));
}

void SimulatedChannel::put(const Costs& costs, const Transfer& transfer,
                           double time) {
  const Transit transit = transit_of(costs, transfer);
  free_since = std::max(time, free_since) + transit.occupies;
  double arrival = free_since + transit.latency;
  // Jitter never reorders messages of one channel.
  if (!queue.empty()) arrival = std::max(arrival, queue.back().arrival);
  queue.push_back({transfer, arrival});
}

}  // namespace sluice
