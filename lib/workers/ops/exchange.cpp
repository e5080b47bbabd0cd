// The work of a seat with the other replicas of its block, and the norm of the
// whole model.
#include "lib/workers/exchanges/exchange.h"

#include <cstddef>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "lib/schedules/plan/exchange_table.h"
#include "lib/tensors/pack.h"
#include "lib/updates/clipping.h"
#include "lib/workers/ops/ops.h"
#include "lib/workers/ops/parts_of_ops.h"

namespace sluice::ops {
namespace {

/// Learners of the boundary whose lesson the exchange belongs to.
Learners& learners_of(SeatCore& seat, const Action& exchange) {
  const PhaseEnds& ends = seat.ends();
  return seat.trained.learners(exchange.kind == ExchangeKind::lesson
                                   ? ends.learners
                                   : ends.upper_learners);
}

ExchangeContext context_of(SeatCore& seat, const Action& action) {
  const bool is_lesson = is_of_lesson(action);
  ExchangeContext context{
      .plan = seat.plan(),
      .action = action,
      .gradients = is_lesson ? seat.lesson : seat.window.gradients,
      .learners = is_lesson ? &learners_of(seat, action) : nullptr,
      .version = seat.progress.version,
      .last_rate = seat.progress.last_rate};
  if (is_of_window(action.kind)) {
    context.info = seat.info_of(action);
    context.epoch = seat.settings.epochs.at(action.turn);
  }
  return context;
}

/// Clips by the norm of what the replica would apply alone.
void clip_own(SeatCore& seat, const Action& exchange) {
  Window& window = seat.window;
  const at::Tensor norm = seat.run_plan().model_norm
                              ? exchange_norm(seat, exchange)
                              : squared_norm(window.gradients).sqrt();
  const auto turns = static_cast<double>(
      seat.settings.options.accumulate_mean ? window.turns : 1);
  clip_to(seat.settings.optimizer.clip_norm, norm / turns, window.gradients);
}

/// The replicas have given the block what it applies: its part of the norm goes
/// down, after that of those above.
void pass_norm_down(SeatCore& seat, const Action& settle) {
  if (!seat.place.is_last())
    seat.norm.take(seat.ports.from_above(MessageKind::norm, settle));
  if (seat.plan().block == 1) return;
  Message message = seat.messages.message_of(MessageKind::norm, settle);
  seat.norm.put_into(message);
  seat.ports.send_down(std::move(message));
}

/// Takes the weights that the replicas have combined.
void take_combined(SeatCore& seat, const Tensors& combined) {
  seat.view->before_update(seat.progress.version);
  seat.trained.assign(combined, seat.view->next_weights());
  seat.view->after_update();
  ++seat.progress.version;
}

/// Begins with what the centre has. No batch is under way.
void enter_run(SeatCore& seat, const SeatEntry& entry) {
  const at::NoGradGuard no_grad;
  take_combined(seat, entry.weights);
  if (seat.replicas.pushes_gradients()) seat.progress.version = entry.clock;
  if (!entry.buffers) return;
  const Tensors mine = values_of(seat.block.buffers());
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i].copy_(entry.buffers->at(i));
}

void take(SeatCore& seat, const Action& settle, ExchangeResult taken) {
  if (taken.gradients) seat.window.gradients = std::move(*taken.gradients);
  if (taken.lesson)
    step(seat, learners_of(seat, settle), std::move(*taken.lesson), settle);
  if (taken.agreed) {
    seat.evaluated.set_weights(taken.agreed->weights);
    seat.evaluated.set_buffers(taken.agreed->buffers);
    for (const CentreLoss& loss : taken.agreed->losses)
      seat.log.lost(settle, loss);
  }
  if (taken.visit) {
    seat.progress.served_as = taken.visit->place;
    seat.late.visited(settle, *taken.visit);
  }
  if (taken.weights) take_combined(seat, *taken.weights);
  if (taken.entry) enter_run(seat, *taken.entry);
  if (taken.gathered) take_weights(seat, settle);
  seat.replicas.keep(std::move(taken));
}

/// Shows the exchanged sums to an observer, for an update of one turn and whole
/// sums.
void show_exchanged(SeatCore& seat, const Action& settle) {
  const BlockPlan& plan = seat.plan();
  const ReplicaExchange& exchange = plan.exchange;
  if (!gives_gradients(plan, settle) || !exchange.graph.is_all() ||
      exchange.served || exchange.shards || plan.accumulate > 1 ||
      plan.replica > 1)
    return;
  const at::NoGradGuard no_grad;
  seat.watched.exchanged(settle, plan.micro_batches.source_batch(settle.batch),
                         seat.window.gradients, seat.replicas.members());
}

}  // namespace

void exchange(SeatCore& seat, const Action& action) {
  if (seat.clips_own() && is_of_window(action.kind)) clip_own(seat, action);
  seat.replicas.exchange(action.kind).publish(context_of(seat, action));
  if (is_of_lesson(action)) seat.lesson.clear();
}

void settle(SeatCore& seat, const Action& action) {
  ExchangeResult taken;
  {
    const SeatClock::WaitScope waiting(seat.clock);
    taken =
        seat.replicas.exchange(action.kind).settle(context_of(seat, action));
  }
  take(seat, action, std::move(taken));
  show_exchanged(seat, action);
  if (is_norm_of_exchanged(seat.run_plan(), seat.place.seat()) &&
      gives_gradients(seat.plan(), action))
    pass_norm_down(seat, action);
}

at::Tensor exchange_norm(SeatCore& seat, const Action& action) {
  at::Tensor norm =
      seat.plan().block == 1
          ? seat.norm.squared().sqrt()
          : norm_in(seat.ports.from_below(MessageKind::norm, action),
                    seat.device());
  if (!seat.place.is_last()) {
    Message message = seat.messages.message_of(MessageKind::norm, action);
    pack({norm}, "norm", message);
    seat.ports.send_up(std::move(message));
  }
  return norm;
}

}  // namespace sluice::ops
