#include "lib/workers/ports.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/plan/ledger.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

Ports::Ports(const RunPlan& plan, int seat, Link below, Link above,
             SeatClock& clock, SeatTimeline& timeline, Deadline patience)
    : seat_(seat),
      neighbours_(plan, seat),
      names_(seat_names(plan)),
      slow_consumer_(
          by_block(plan.blocks, seat).free.inbox_above.slow_consumer),
      below_(std::move(below)),
      above_(std::move(above)),
      clock_(clock),
      timeline_(timeline),
      patience_(patience),
      inbox_(make_inbox(by_block(plan.blocks, seat).free.inbox_below,
                        by_block(plan.blocks, seat).block)),
      has_gaps_(!inbox_ && by_block(plan.blocks, seat).free.has_gaps) {}

Message Ports::from_below(MessageKind kind, const Action& action) {
  return expected(*below_.receiver, neighbours_.below(kind, action.batch), kind,
                  action);
}

Message Ports::from_above(MessageKind kind, const Action& action) {
  return expected(*above_.receiver, neighbours_.above(kind, action.batch), kind,
                  action);
}

void Ports::send_down(Message message) {
  const int peer = neighbours_.below(message.kind, message.batch);
  send(*below_.sender, peer, std::move(message));
}

void Ports::send_up(Message message) {
  const int peer = neighbours_.above(message.kind, message.batch);
  send(*above_.sender, peer, std::move(message));
}

Inbox::Input Ports::input(const Action& forward) {
  if (inbox_) return inbox_->input(forward, next_below());
  return {from_below(MessageKind::activation, forward)};
}

Message Ports::evaluation(const Action& action) {
  if (inbox_) return inbox_->evaluation(action.batch, next_below());
  return from_below(MessageKind::evaluation, action);
}

Message Ports::expected(Receiver& from, int peer, MessageKind kind,
                        const Action& action) {
  std::optional<Message> message = receive(from, peer);
  if (!message)
    throw LinkError("{}: the neighbour closed before it sent {} {}",
                    names_.of(seat_), name_of(kind), action.batch);
  const BatchRound got{message->batch, message->round};
  SLUICE_CHECK(message->kind == kind && got == batch_round(action),
               "{} expected {} {}, got {} {}", names_.of(seat_), name_of(kind),
               to_text(batch_round(action)), name_of(message->kind),
               to_text(got));
  return std::move(*message);
}

/// The next message that is not told to be skipped.
std::optional<Message> Ports::receive(Receiver& from, int peer) {
  const SeatClock::WaitScope waiting(clock_);
  while (true) {
    const SteadyTime since = std::chrono::steady_clock::now();
    std::optional<Message> message = from.receive();
    if (message)
      timeline_.taken({message->kind, message->batch, message->round}, peer,
                      since);
    const bool is_skipped = message &&
                            message->kind == MessageKind::activation &&
                            skipped_.erase(message->batch) > 0;
    if (!is_skipped) return message;
  }
}

Inbox::Next Ports::next_below() {
  return [this] { return receive(*below_.receiver, seat_ - 1); };
}

void Ports::send(Sender& to, int peer, Message message) {
  const SeatClock::WaitScope waiting(clock_);
  const MessageHead head{message.kind, message.batch, message.round};
  const SteadyTime since = std::chrono::steady_clock::now();
  to.send(std::move(message));
  timeline_.sent(head, peer, since);
}

std::int64_t Ports::waiting_bytes() const {
  std::size_t bytes = inbox_ ? inbox_->bytes() : 0;
  for (const Link* link : {&below_, &above_})
    if (link->receiver) bytes += link->receiver->waiting_bytes();
  return static_cast<std::int64_t>(bytes);
}

void Ports::run_free(const std::shared_ptr<Bell>& bell) {
  if (slow_consumer_ != SlowConsumer::block) {
    auto sender =
        std::make_unique<LossySender>(std::move(above_.sender), slow_consumer_);
    lossy_ = sender.get();
    above_.sender = std::move(sender);
  }
  for (Link* link : {&below_, &above_}) {
    if (link->sender) link->sender->ring(bell);
    if (link->receiver) link->receiver->ring(bell);
  }
}

bool Ports::wait(const Bell& bell, std::uint64_t heard) {
  const SeatClock::WaitScope waiting(clock_);
  return bell.wait(heard, patience_);
}

void Ports::flush() {
  if (lossy_ != nullptr) lossy_->flush();
}

std::optional<MessageHead> Ports::next_from_below() const {
  return below_.receiver ? below_.receiver->next() : std::nullopt;
}

void Ports::take_end() {
  receive(*below_.receiver, seat_ - 1);
}

void Ports::send_end(std::int64_t end) {
  send_up({.kind = MessageKind::reached, .batch = end});
}

/// Whether what the action needs comes next, or the neighbour is gone.
bool Ports::is_next(const Transfer& need, Receiver& from) const {
  if (!from.ready()) return false;
  if (!has_gaps_ || need.from > seat_) return true;
  const std::optional<MessageHead> next = from.next();
  return !next || (next->kind == need.kind && next->batch == need.batch);
}

bool Ports::are_ready(const RunPlan& plan, Action& action) {
  if (inbox_ && action.op == Op::forward &&
      !inbox_->is_ready(action, *below_.receiver, next_below()))
    return false;
  const auto needs = needs_of(plan, seat_, action);
  const auto yields = yields_of(plan, seat_, action);
  const auto link_to = [&](int other) -> const Link& {
    return other < seat_ ? below_ : above_;
  };
  return std::all_of(needs.begin(), needs.end(),
                     [&](const Transfer& need) {
                       return is_next(need, *link_to(need.from).receiver);
                     }) &&
         std::all_of(yields.begin(), yields.end(), [&](const Transfer& yield) {
           return link_to(yield.to).sender->ready();
         });
}

SteadyTime Ports::arrival_of(const RunPlan& plan, const Action& action) const {
  SteadyTime last = {};
  for (const Transfer& need : needs_of(plan, seat_, action)) {
    const Link& from = need.from < seat_ ? below_ : above_;
    last = std::max(last, from.receiver->next_arrived().value_or(last));
  }
  return last;
}

std::vector<std::int64_t> Ports::take_dropped() {
  if (lossy_ == nullptr) return {};
  std::vector<std::int64_t> batches = lossy_->take_dropped();
  count_dropped(batches.size());
  return batches;
}

void Ports::skip(const std::vector<std::int64_t>& batches) {
  skipped_.insert(batches.begin(), batches.end());
}

void Ports::close() {
  for (Link* link : {&below_, &above_})
    if (link->sender) link->sender->close();
}

namespace {

/// Takes a message of a neighbour that this block needs no more; false when it
/// has closed. A long wait is no failure; a neighbour that is gone says why
/// itself, or the launcher does.
bool still_sends(Receiver& neighbour) {
  try {
    return neighbour.discard();
  } catch (const LinkError&) {
    return !neighbour.ready();
  }
}

}  // namespace

void Ports::outlast_neighbours() {
  for (Link* link : {&below_, &above_})
    while (link->receiver && still_sends(*link->receiver)) {
    }
}

}  // namespace sluice
