#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>

#include "lib/base/messages/lossy_sender.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/plan/replay_buffer.h"
#include "lib/schedules/simulation/costs.h"

namespace sluice {

/// One direction of a link of a simulation: the headers of the messages in it,
/// and when it has room. Times are seconds of virtual time.
struct SimulatedChannel {
  struct QueuedTransfer {
    Transfer transfer = {};
    double arrival = 0;
  };

  /// What the channel gives next to a block that asks for `wanted`; nullptr:
  /// nothing.
  const QueuedTransfer* head_for(const Transfer& wanted) const;
  /// Since when it can take that; nothing: not yet. is_told: the sender follows
  /// a record, whose messages had room.
  std::optional<double> room_for(const Transfer& sent, bool is_told) const;
  /// Time at which so many messages can have been written into the buffer;
  /// nothing: not yet.
  std::optional<double> written_since(std::int64_t count) const;
  /// Takes a message that leaves its sender then. Returns the batch of that
  /// which is dropped for it, if any.
  std::optional<std::int64_t> send(const Costs& costs, const Transfer& transfer,
                                   double time, bool is_told);
  /// The first message is taken: one that waits for room may go.
  void pop(const Costs& costs, double now);

  std::deque<QueuedTransfer> queue = {};
  std::size_t capacity = 1;
  double room_since = 0;
  double free_since = 0;  ///< when it has carried all that was sent
  /// Where activations go when they arrive: the headers of what the block
  /// above has.
  std::optional<ReplayBuffer> buffer = {};
  double made_room = 0;  ///< when the buffer last could take more
  /// At the sender, where activations may be dropped.
  std::optional<WaitingRoom<QueuedTransfer>> waiting = {};
  std::set<std::int64_t> dropped = {};  ///< batches that a record says it of

 private:
  void put(const Costs& costs, const Transfer& transfer, double time);
};

}  // namespace sluice
