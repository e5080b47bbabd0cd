#include "lib/workers/ops/parts_of_ops.h"

#include <cstdint>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/blocks/evaluation.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/pack.h"
#include "lib/workers/trained/vjp.h"

namespace sluice::ops {

InputContext input_context(SeatCore& seat, const Action& action) {
  InputContext context{.turn = action.turn,
                       .batch = action.batch,
                       .pass = seat.pass_for(action.batch, true),
                       .device = seat.device()};
  if (seat.plan().forwards_data())
    context.data = [&messages = seat.messages, batch = action.batch] {
      return messages.read_training(batch);
    };
  return context;
}

PendingBackward opened(SeatCore& seat, const Action& action, Tensors returned) {
  PendingBackward asked{.flight = seat.held.take_flight(action.batch)};
  asked.flight.returned = std::move(returned);
  if (seat.settings.optimizer.wants_forward_weights)
    asked.forward_weights = seat.view->weights_of(asked.flight);
  asked.graph = seat.view->graph_of(asked.flight, seat.progress.version);
  seat.memory_use.raise_to(
      seat.held.memory(*seat.view, asked.flight.graph_bytes));
  return asked;
}

Signal signal_for(SeatCore& seat, const Action& action,
                  const PendingBackward& asked, const Tensors& from_above,
                  const Visit& visit) {
  const Tensors features = leaves_of(asked.graph.outputs, true);
  const WriteCheck unchanged({&from_above, &features});
  Signal signal = signal_of({.turn = action.turn,
                             .batch = action.batch,
                             .features = features,
                             .labels = asked.flight.labels,
                             .from_above = from_above,
                             .pass = asked.flight.pass,
                             .attachments = asked.flight.attachments,
                             .share = seat.share_of(action),
                             .visit = visit},
                            *seat.ends().lower, seat.ends().trained.size());
  unchanged.check(fmt::format("the policy above block {}", seat.block.index()));
  return signal;
}

void apply(SeatCore& seat, const Action& action, const PendingBackward& asked,
           const Tensors& parameters) {
  const BlockPlan& plan = seat.plan();
  const Flight& flight = asked.flight;
  const Signal& signal = asked.signal;
  Window& window = seat.window;
  const std::int64_t in_batches = plan.staleness_of(action);
  const std::int64_t in_updates = seat.progress.version - flight.version;
  window.add(
      seat.trained.in_order(parameters, signal.parameter_gradients,
                            static_cast<std::size_t>(seat.place.phase())),
      action.batch, plan.micro_batches, seat.weight_of(action));
  window.in_batches.add(in_batches);
  window.in_updates.add(in_updates);
  window.forward_weights = asked.forward_weights;
  at::Tensor correct;
  if (signal.logits.defined() && seat.is_logged(action))
    correct = correct_of(signal.logits, flight.labels);
  seat.log.applied(action, in_batches,
                   {.loss = signal.loss,
                    .correct = correct,
                    .labels = predictions_in(flight.labels),
                    .share = plan.micro_batches.part_of_turn(action.batch),
                    .figures = signal.figures});
  seat.replicas.lost(asked.losses, seat.share_of(action));
  // With a centre or shared weights, lateness is known only later: others may
  // come before this gradient.
  if (const auto in_steps = seat.replicas.late_by(in_updates))
    seat.late.report(action, in_updates, *in_steps);
  else if (seat.replicas.pushes_gradients())
    seat.late.keep(in_updates);
  seat.watched.applied(action, plan.micro_batches.source_batch(action.batch),
                       parameters);
}

DownPayload down_of(SeatCore& seat, std::vector<Tensors> gradients,
                    const Tensors& inputs) {
  const BlockPlan& plan = seat.plan();
  if (!plan.forwards_data())
    for (Tensors& way : gradients)
      way = masked(way, inputs, seat.messages.codec_below());
  DownPayload down{std::move(gradients)};
  if (plan.gradients.returns_input) down.returned = leaves_of(inputs, false);
  if (plan.answers()) down.answer = seat.ends().upper->answer(seat.block);
  return down;
}

}  // namespace sluice::ops
