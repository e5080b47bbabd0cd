#include "lib/workers/seat_timeline.h"

#include <chrono>
#include <string>
#include <utility>

#include "lib/metrics/clock_offset.h"
#include "lib/metrics/records.h"
#include "lib/tensors/waiting_bytes.h"

namespace sluice {
namespace {

double seconds(SteadyTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

SeatTimeline::SeatTimeline(int seat, std::shared_ptr<Sink> sink,
                           TracedTurns turns)
    : seat_(seat), sink_(std::move(sink)), turns_(turns) {}

void SeatTimeline::begins(const Action& action) {
  is_on_ = sink_ && turns_.contain(action.turn);
  turn_ = action.turn;
  if (is_on_) start_ = std::chrono::steady_clock::now();
}

void SeatTimeline::ends(const Action& action, std::int64_t staleness,
                        const Link& below, const Link& above) {
  if (!std::exchange(is_on_, false)) return;
  records::Action done{
      .seat = seat_,
      .turn = action.turn,
      .batch = action.batch,
      .name = to_text(action),
      .category = std::string(name_of(action.op)),
      .start = seconds(start_),
      .end = steady_seconds(),
      .waiting_bytes = waiting_bytes(below) + waiting_bytes(above)};
  if (action.op == Op::backward || action.op == Op::backward_input)
    done.staleness = staleness;
  sink_->write(done);
}

template <class Kind>
void SeatTimeline::tell_of(const MessageHead& head, int peer,
                           SteadyTime since) const {
  if (!is_on_) return;
  Kind moved{{.seat = seat_,
              .turn = turn_,
              .peer = peer,
              .message = std::string(name_of(head.kind)),
              .batch = head.batch,
              .start = seconds(since),
              .end = steady_seconds()}};
  if (head.round > 0) moved.round = head.round;
  sink_->write(moved);
}

void SeatTimeline::taken(const MessageHead& head, int peer,
                         SteadyTime since) const {
  tell_of<records::TakenMessage>(head, peer, since);
}

void SeatTimeline::sent(const MessageHead& head, int peer,
                        SteadyTime since) const {
  tell_of<records::SentMessage>(head, peer, since);
}

}  // namespace sluice
