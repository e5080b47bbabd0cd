// The work of a seat with the other replicas of its block.
#include <cstdint>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/replicas/centre.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/sample_weights.h"
#include "lib/workers/seat.h"
#include "lib/workers/seat_clock.h"

namespace sluice {

/// Reads the weights that the replicas share, once for each version: before the
/// first batch that sees it. No graph refers to the weights after an update
/// yet, so they are overwritten in place.
void Seat::take_shared() {
  if (!replicas_.share_weights() || window_.batches > 0 ||
      held_.have_version(version_))
    return;
  replicas_.before_forward();
}

/// Whether a centre makes the block's updates, of the gradients that it is
/// given.
bool Seat::pushes_gradients() const {
  return replicas_.is_served() &&
         replicas_.what() == ExchangedTensors::gradients;
}

/// The weights that the centre has made of the window's gradients.
double Seat::take_served() {
  const ServerAnswer served = std::exchange(served_, {});
  trained_.assign(served.tensors, view_->next_weights());
  version_ = served.clock;
  return served.rate;
}

void Seat::exchange(const Action& action) {
  if (clips_own() && action.round == 0) clip_own(action);
  if (action.round == kAgreement)
    replicas_.publish_agreement();
  else if (is_of_lesson(action))
    replicas_.publish_lesson(learners_of(action), std::exchange(lesson_, {}));
  else if (action.round == kGather)
    replicas_.publish_parts();
  else if (action.round == kAdopt)
    replicas_.publish_whole();
  else if (replicas_.is_served())
    return;  // it is on its way: what it brings, the settle hands over
  else if (is_among_peers(plan(), action))
    replicas_.publish_to(peers_of(plan(), action), window_.gradients);
  else if (action.round == kSecondRound)
    replicas_.publish_second();
  else
    replicas_.publish(
        window_.gradients,
        {.number = version_, .epoch = settings_.epochs.at(action.turn)});
}

double Seat::weight_of(const Action& action) const {
  const ReplicaExchange& exchange = plan().exchange;
  const bool sums_gradients = exchange.members > 1 &&
                              exchange.what == ExchangedTensors::gradients &&
                              exchange.graph.is_all() && !exchange.served;
  const MicroBatches& cut = plan().micro_batches;
  return sums_gradients || cut.dealt > 1 ? weight_in_turn(cut, action.batch)
                                         : 1;
}

/// Learners of the boundary whose lesson the exchange belongs to.
Learners& Seat::learners_of(const Action& exchange) {
  return trained_.learners(exchange.round == kLesson ? ends().learners
                                                     : ends().upper_learners);
}

void Seat::settle_lesson(const Action& action) {
  Tensors sum;
  {
    const SeatClock::WaitScope waiting(clock_);
    sum = replicas_.settle_lesson();
  }
  step(learners_of(action), std::move(sum), action);
}

void Seat::settle(const Action& action) {
  if (is_of_lesson(action)) return settle_lesson(action);
  settle_exchange(action);
  show_exchanged(action);
  if (is_norm_of_exchanged(run_plan(), number_) &&
      gives_gradients(plan(), action))
    pass_norm_down(action);
}

/// Shows the exchanged sums to an observer, for an update of one turn and whole
/// sums.
void Seat::show_exchanged(const Action& settle) {
  const ReplicaExchange& exchange = plan().exchange;
  if (!gives_gradients(plan(), settle) || !exchange.graph.is_all() ||
      exchange.served || exchange.shards || plan().accumulate > 1 ||
      replica() > 1)
    return;
  const at::NoGradGuard no_grad;
  watched_.exchanged(settle, plan().micro_batches.source_batch(settle.batch),
                     window_.gradients, replicas_.members());
}

void Seat::settle_exchange(const Action& action) {
  const SeatClock::WaitScope waiting(clock_);
  if (action.round == kAgreement) return replicas_.settle_agreement(evaluated_);
  if (action.round == kGather) {
    replicas_.settle_parts();
    take_weights(action);
    return;
  }
  if (action.round == kAdopt) return take_combined(replicas_.settle_best());
  if (is_merge(plan(), action)) return take_merged(action);
  if (plan().exchange.quorum.is_there()) return bring_to_centre(action);
  if (replicas_.is_served()) return visit_centre(action);
  if (is_among_peers(plan(), action)) return settle_peers();
  const bool is_first =
      plan().exchange.rounds > 1 && action.round != kSecondRound;
  if (is_first) return replicas_.settle_first();
  Tensors sum = replicas_.settle();
  if (replicas_.what() == ExchangedTensors::gradients)
    window_.gradients = std::move(sum);
  else
    take_combined(replicas_.combine(sum, last_rate_));
}

void Seat::visit_centre(const Action& action) {
  ServerAnswer served =
      replicas_.visit_centre(window_.gradients, info_of(action), version_);
  SLUICE_CHECK(action.arrived == 0 || action.arrived == served.place,
               "{} ({}) was served as number {}", name(), to_text(action),
               served.place);
  served_as_ = served.place;
  if (!pushes_gradients()) return take_combined(std::move(served.tensors));
  for (const std::int64_t known : std::exchange(known_late_, {}))
    tell_late(action, known, known + served.missed);
  served_ = std::move(served);
}

void Seat::bring_to_centre(const Action& action) {
  served_as_ = replicas_.bring(window_.gradients, info_of(action), version_,
                               action.batch);
  SLUICE_CHECK(action.arrived == 0 || action.arrived == served_as_,
               "{} ({}) was served as number {}", name(), to_text(action),
               served_as_);
}

void Seat::take_merged(const Action& action) {
  MergeResult merged = replicas_.take(action.arrived > 0);
  served_as_ = merged.served.place;
  absent_ += merged.absent;
  if (merged.is_late) ++late_;
  if (plan().exchange.quorum.drops_late) merged_turn_ = merged.turn;
  if (!pushes_gradients())
    return take_combined(std::move(merged.served.tensors));
  for (const std::int64_t known : std::exchange(known_late_, {}))
    if (!merged.is_late) tell_late(action, known, known);
  served_ = std::move(merged.served);
}

void Seat::settle_peers() {
  if (replicas_.what() == ExchangedTensors::gradients)
    shared_ = replicas_.settle_gradients();
  else
    take_combined(replicas_.settle_mixed());
}

/// Takes the weights that the replicas have combined.
void Seat::take_combined(Tensors combined) {
  if (replicas_.what() == ExchangedTensors::old_weights) {
    pulls_ = std::move(combined);
    return;
  }
  view_->before_update(version_);
  trained_.assign(combined, view_->next_weights());
  view_->after_update();
  ++version_;
}

}  // namespace sluice
