#include "lib/workers/seat_timeline.h"

#include <chrono>
#include <string>
#include <utility>

#include "lib/metrics/clock_offset.h"
#include "lib/tensors/waiting_bytes.h"

namespace sluice {
namespace {

double seconds(SteadyTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

SeatTimeline::SeatTimeline(int block, std::shared_ptr<Sink> sink,
                           TracedTurns turns)
    : block_(block), sink_(std::move(sink)), turns_(turns) {}

void SeatTimeline::begins(const Action& action) {
  is_on_ = sink_ && turns_.contain(action.turn);
  turn_ = action.turn;
  if (is_on_) start_ = std::chrono::steady_clock::now();
}

void SeatTimeline::ends(const Action& action, std::int64_t staleness,
                        const Link& below, const Link& above) {
  if (!std::exchange(is_on_, false)) return;
  Record record;
  record.set("kind", "action");
  record.set("block", std::int64_t{block_});
  record.set("turn", action.turn);
  record.set("batch", action.batch);
  record.set("name", to_text(action));
  record.set("category", std::string(name_of(action.op)));
  record.set("start", seconds(start_));
  record.set("end", steady_seconds());
  record.set("waiting_bytes", waiting_bytes(below) + waiting_bytes(above));
  if (action.op == Op::backward || action.op == Op::backward_input)
    record.set("staleness", staleness);
  sink_->write(record);
}

void SeatTimeline::tell_of(const char* kind, const MessageHead& head, int peer,
                           SteadyTime since) const {
  if (!is_on_) return;
  Record record;
  record.set("kind", kind);
  record.set("block", std::int64_t{block_});
  record.set("turn", turn_);
  record.set("peer", std::int64_t{peer});
  record.set("message", std::string(name_of(head.kind)));
  record.set("batch", head.batch);
  if (head.round > 0) record.set("round", head.round);
  record.set("start", seconds(since));
  record.set("end", steady_seconds());
  sink_->write(record);
}

void SeatTimeline::taken(const MessageHead& head, int peer,
                         SteadyTime since) const {
  tell_of("taken", head, peer, since);
}

void SeatTimeline::sent(const MessageHead& head, int peer,
                        SteadyTime since) const {
  tell_of("sent", head, peer, since);
}

}  // namespace sluice
