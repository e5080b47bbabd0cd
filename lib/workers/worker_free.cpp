// What a worker does by itself when its block runs free: it looks at its
// channels, and goes on with what a checkpoint had in flight.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lib/checkpoints/saved_state.h"
#include "lib/workers/worker.h"

namespace sluice {

/// What is in flight is what was restored, and no function of the turn.
void Worker::start_free(const Grant& first) {
  first_batch_ = first.first_batch;
  last_turn_ = first.first_turn - 1;
  for (const auto& [batch, down] : std::exchange(sent_down_, {}))
    send_down({.batch = batch}, down);
  ledger_ = {};
  for (const auto& [batch, flight] : flights_)
    ledger_.set(Mark::in_flight, batch);
  for (const auto& [batch, lesson] : lessons_) ledger_.set(Mark::lesson, batch);
  for (std::int64_t i = 0; i < pending_.batches; ++i)
    ledger_.set(Mark::summed, pending_.first_turn + i);
}

/// Batches whose gradients the block below had not taken when it was saved: of
/// those that went down, they were under way.
std::vector<std::int64_t> Worker::awaited_below(const SavedState& saved) const {
  if (block() == 1) return {};
  const auto below = static_cast<std::size_t>(block()) - 2;
  const auto batches = [&](const char* what) {
    return saved.numbers_below(fmt::format("{}.{}", what, below + 1));
  };
  std::vector<std::int64_t> awaited = batches("flights");
  if (run_plan().blocks[below].gradient_from_above) return awaited;
  const std::vector<std::int64_t> lessons = batches("lessons");
  awaited.insert(awaited.begin(), lessons.begin(), lessons.end());
  return awaited;
}

void Worker::run_free(const std::shared_ptr<Bell>& bell) {
  const SlowConsumer policy = plan().slow_consumer;
  if (policy != SlowConsumer::block) {
    auto sender =
        std::make_unique<LossySender>(std::move(parts_.above.sender), policy);
    lossy_ = sender.get();
    parts_.above.sender = std::move(sender);
  }
  for (Link* link : {&parts_.below, &parts_.above}) {
    if (link->sender) link->sender->ring(bell);
    if (link->receiver) link->receiver->ring(bell);
  }
}

bool Worker::wait(const Bell& bell, std::uint64_t heard) {
  const Stopwatch waiting(spent_.waiting);
  return bell.wait(heard, settings_.patience);
}

void Worker::flush() {
  if (lossy_ != nullptr) lossy_->flush();
}

std::optional<MessageHead> Worker::next_from_below() const {
  return parts_.below.receiver ? parts_.below.receiver->next() : std::nullopt;
}

bool Worker::is_ready(Action& action) {
  if (buffer_ && action.op == Op::forward) {
    take_what_has_arrived();
    const bool is_gone =
        parts_.below.receiver->ready() && !next_from_below().has_value();
    if (buffer_->empty() && !is_gone) return false;
    action.arrived = buffer_->written() + (buffer_->empty() ? 1 : 0);
  }
  const auto needs = needs_of(run_plan(), block(), action);
  const auto yields = yields_of(run_plan(), block(), action);
  const auto is_below = [&](int other) { return other < block(); };
  return std::all_of(needs.begin(), needs.end(),
                     [&](const Transfer& need) {
                       const Link& link =
                           is_below(need.from) ? parts_.below : parts_.above;
                       return link.receiver->ready();
                     }) &&
         std::all_of(yields.begin(), yields.end(), [&](const Transfer& yield) {
           const Link& link = is_below(yield.to) ? parts_.below : parts_.above;
           return link.sender->ready();
         });
}

void Worker::take_what_has_arrived() {
  while (buffer_->has_room()) {
    const std::optional<MessageHead> next = next_from_below();
    if (!next || next->kind != MessageKind::activation) return;
    fill_buffer(buffer_->written() + 1);
  }
}

std::vector<std::int64_t> Worker::take_dropped() {
  if (lossy_ == nullptr) return {};
  std::vector<std::int64_t> batches = lossy_->take_dropped();
  count_dropped(batches.size());
  return batches;
}

void Worker::count_dropped(std::size_t messages) {
  dropped_ += messages;
}

void Worker::skip(const std::vector<std::int64_t>& batches) {
  skipped_.insert(batches.begin(), batches.end());
}

}  // namespace sluice
