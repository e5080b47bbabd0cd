// The work of a seat with the other replicas of its block.
#include <cstddef>
#include <cstdint>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/sample_weights.h"
#include "lib/workers/exchanges/exchange.h"
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

ExchangeContext Seat::context_of(const Action& action) {
  const bool is_lesson = is_of_lesson(action);
  ExchangeContext context{
      .plan = plan(),
      .action = action,
      .gradients = is_lesson ? lesson_ : window_.gradients,
      .learners = is_lesson ? &learners_of(action) : nullptr,
      .version = version_,
      .last_rate = last_rate_};
  if (is_of_window(action.kind)) {
    context.info = info_of(action);
    context.epoch = settings_.epochs.at(action.turn);
  }
  return context;
}

void Seat::exchange(const Action& action) {
  if (clips_own() && is_of_window(action.kind)) clip_own(action);
  replicas_.exchange(action.kind).publish(context_of(action));
  if (is_of_lesson(action)) lesson_.clear();
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
  return trained_.learners(exchange.kind == ExchangeKind::lesson
                               ? ends().learners
                               : ends().upper_learners);
}

void Seat::settle(const Action& action) {
  ExchangeResult taken;
  {
    const SeatClock::WaitScope waiting(clock_);
    taken = replicas_.exchange(action.kind).settle(context_of(action));
  }
  take(action, std::move(taken));
  show_exchanged(action);
  if (is_norm_of_exchanged(run_plan(), number_) &&
      gives_gradients(plan(), action))
    pass_norm_down(action);
}

void Seat::take(const Action& settle, ExchangeResult taken) {
  if (taken.gradients) window_.gradients = std::move(*taken.gradients);
  if (taken.lesson) step(learners_of(settle), std::move(*taken.lesson), settle);
  if (taken.agreed) {
    evaluated_.set_weights(taken.agreed->weights);
    evaluated_.set_buffers(taken.agreed->buffers);
  }
  if (taken.visit) note_visit(settle, *taken.visit);
  if (taken.weights) take_combined(*taken.weights);
  if (taken.entry) enter_run(*taken.entry);
  if (taken.gathered) take_weights(settle);
  replicas_.keep(std::move(taken));
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

void Seat::note_visit(const Action& settle, const CentreVisit& visit) {
  served_as_ = visit.place;
  if (visit.merged) {
    absent_ += visit.merged->absent;
    if (visit.merged->is_late) ++late_;
    if (plan().exchange.quorum.drops_late) merged_turn_ = visit.merged->turn;
  } else {
    SLUICE_CHECK(settle.arrived == 0 || settle.arrived == visit.place,
                 "{} ({}) was served as number {}", name(), to_text(settle),
                 visit.place);
  }
  if (!visit.is_over) return;
  const bool is_dropped = visit.merged && visit.merged->is_late;
  for (const std::int64_t known : std::exchange(known_late_, {}))
    if (!is_dropped) tell_late(settle, known, known + visit.missed);
}

/// Takes the weights that the replicas have combined.
void Seat::take_combined(const Tensors& combined) {
  view_->before_update(version_);
  trained_.assign(combined, view_->next_weights());
  view_->after_update();
  ++version_;
}

/// Begins with what the centre has. No batch is under way.
void Seat::enter_run(const SeatEntry& entry) {
  const at::NoGradGuard no_grad;
  take_combined(entry.weights);
  if (replicas_.pushes_gradients()) version_ = entry.clock;
  if (!entry.buffers) return;
  const Tensors mine = values_of(block_.buffers());
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i].copy_(entry.buffers->at(i));
}

}  // namespace sluice
