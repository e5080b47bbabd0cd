#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "lib/base/messages/bell.h"
#include "lib/base/messages/channel.h"
#include "lib/base/messages/lossy_sender.h"
#include "lib/boundaries/inboxes/inbox.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/workers/seat_clock.h"
#include "lib/workers/seat_timeline.h"

namespace sluice {

/// The channels of a block to its neighbours, what waits there, and what the
/// block waits for. One thread uses it.
class Ports {
 public:
  /// Links are empty where there is no neighbour. Clock and timeline outlive
  /// it. `patience`: how long wait() does.
  Ports(const RunPlan& plan, int seat, Link below, Link above, SeatClock& clock,
        SeatTimeline& timeline, Deadline patience);

  /// Receives the message of that kind for the action's batch, which must come
  /// next. Throws LinkError when the neighbour is gone or has closed,
  /// InternalError when another one comes.
  Message from_below(MessageKind kind, const Action& action);
  Message from_above(MessageKind kind, const Action& action);
  /// Wait for room. Throw LinkError when the neighbour is gone.
  void send_down(Message message);
  void send_up(Message message);
  /// What a training forward takes. An age only where an inbox gives it.
  Inbox::Input input(const Action& forward);
  bool has_inbox() const { return inbox_ != nullptr; }
  Message evaluation(const Action& action);

  const Link& below() const { return below_; }
  const Link& above() const { return above_; }
  /// Payload of what waits to be received, and in the inbox.
  std::int64_t waiting_bytes() const;

  // For a block that runs free on a thread of its own:

  /// Before the first action: the bell is rung when a message has come or one
  /// has room, and the sender drops by itself what the plan says.
  void run_free(const std::shared_ptr<Bell>& bell);
  /// Sleeps until the bell has been rung more often than `heard` times; false
  /// when the patience ends first.
  bool wait(const Bell& bell, std::uint64_t heard);
  /// Sends messages that waited for room and have it now.
  void flush();
  /// The message from below that comes next, if it has come.
  std::optional<MessageHead> next_from_below() const;
  /// Takes the word from below, which has come, that no batch before one comes
  /// any more; and says that to the block above, if there is room. Both only
  /// where a dealer leaves batches out (MicroBatches::by_arrival).
  void take_end();
  bool has_room_for_end() const { return above_.sender->ready(); }
  void send_end(std::int64_t end);
  /// Whether an action would not wait for its messages or for room, or would
  /// throw because a neighbour is gone. Sets action.arrived.
  bool are_ready(const RunPlan& plan, Action& action);
  /// Time at which the messages that a ready action takes had all come; the
  /// clock's epoch where it takes none.
  SteadyTime arrival_of(const RunPlan& plan, const Action& action) const;
  /// The batches whose activations were dropped since the last call.
  std::vector<std::int64_t> take_dropped();

  // What a simulation has decided, or a record says, of slow consumers.

  /// Activations of the boundary above were dropped, which is only counted.
  void count_dropped(std::size_t messages) { dropped_ += messages; }
  std::size_t dropped() const { return dropped_; }
  /// Activations of the boundary below that shall not be seen when they come.
  void skip(const std::vector<std::int64_t>& batches);

  /// Closes the channels: what was sent arrives, then the neighbours see the
  /// end.
  void close();
  /// After close(), where the neighbours work at the same time: takes what they
  /// still send and this block doesn't need until they have closed too, so that
  /// none finds its neighbour gone.
  void outlast_neighbours();

 private:
  std::optional<Message> receive(Receiver& from, int peer);
  Message expected(Receiver& from, int peer, MessageKind kind,
                   const Action& action);
  void send(Sender& to, int peer, Message message);
  Inbox::Next next_below();
  bool is_next(const Transfer& need, Receiver& from) const;

  int seat_;
  Neighbours neighbours_;
  SeatNames names_;
  SlowConsumer slow_consumer_;  // of the boundary above
  Link below_;
  Link above_;
  SeatClock& clock_;
  SeatTimeline& timeline_;
  Deadline patience_;
  std::unique_ptr<Inbox> inbox_;    // nullptr: the channel alone
  LossySender* lossy_ = nullptr;    // above_.sender, if it is one
  std::set<std::int64_t> skipped_;  // batches
  bool has_gaps_;                   // whether one can't know what comes next
  std::size_t dropped_ = 0;         // messages
};

}  // namespace sluice
