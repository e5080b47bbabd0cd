// The backward of a batch in several visits.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/blocks/block.h"
#include "lib/schedules/plan/gradient_part.h"
#include "lib/schedules/plan/program.h"
#include "lib/tensors/leaves.h"
#include "lib/weights/block_weights.h"
#include "lib/workers/ops/ops.h"
#include "lib/workers/ops/parts_of_ops.h"
#include "lib/workers/trained/vjp.h"

namespace sluice::ops {
namespace {

const BackwardVisit& visit_of_round(const SeatCore& seat,
                                    const Action& action) {
  return seat.plan().visits.at(static_cast<std::size_t>(action.round));
}

/// The batch of the visit, which the first one opens.
PendingBackward& opened_once(SeatCore& seat, const Action& action) {
  if (action.round == 0) {
    seat.progress.last_turn = action.turn;
    seat.late.check(action);
    seat.held.halves.emplace(action.batch, opened(seat, action));
  }
  return seat.held.halves.at(action.batch);
}

void end_visit(SeatCore& seat, const Action& action) {
  seat.note_memory();
  if (!is_last_visit(seat.plan(), action)) return;
  const PendingBackward done = seat.held.take_half(action.batch);
  apply(seat, action, done, done.parameters);
}

/// Asks the end above the block for a signal by itself, if it has any: an end
/// that passes gradients on has none, a loss of its own says which part where
/// the reaches below differ.
void ask_own(SeatCore& seat, const Action& action, PendingBackward& asked) {
  const std::vector<GradientPart>& parts = seat.plan().gradients.parts;
  if (std::any_of(parts.begin(), parts.end(),
                  [](const GradientPart& part) { return part.own; }))
    asked.signal = signal_for(seat, action, asked, {});
}

/// Forwards once more, with what the visit takes from below.
void forward_again(SeatCore& seat, const Action& action,
                   PendingBackward& asked) {
  const Payload fed = seat.messages.input_again(action);
  asked.flight.inputs =
      leaves_of(fed.features, seat.plan().gradient_to_below());
  const BufferGuard kept(seat.block);
  asked.graph.outputs = forward_with_graph(seat.block, asked.flight);
}

/// Asks for the signal again, with what the visit takes from above.
void ask_again(SeatCore& seat, const Action& action, PendingBackward& asked) {
  const BackwardVisit& mine = visit_of_round(seat, action);
  Tensors from_above;
  for (const Arrival& from : mine.arrivals)
    from_above =
        seat.messages.from_above(action, from.round).gradients.at(from.way);
  asked.signal = signal_for(seat, action, asked, from_above,
                            {.round = action.round,
                             .goes_back = mine.goes_back,
                             .is_last = is_last_visit(seat.plan(), action)});
}

void send_up_again(SeatCore& seat, const Action& action,
                   const PendingBackward& asked) {
  SLUICE_CHECK(!asked.signal.published.empty(),
               "the policy above block {} publishes nothing in visit {}",
               seat.block.index(), action.round);
  Message message = seat.messages.message_of(MessageKind::activation, action);
  message.round = action.round + 1;
  message.weight_version = asked.flight.version;
  seat.messages.send_up_again(std::move(message), asked.signal.published,
                              asked.flight.labels);
}

}  // namespace

void visit(SeatCore& seat, const Action& action) {
  const GradientFlow& flow = seat.plan().gradients;
  const BackwardVisit& mine = visit_of_round(seat, action);
  PendingBackward& asked = opened_once(seat, action);
  if (action.round == 0) ask_own(seat, action, asked);
  std::vector<Pull> pulls;
  if (mine.own) add_part(flow.parts.front(), asked.signal.gradients, pulls);
  for (const Arrival& from : mine.arrivals)
    add_part(
        flow.arriving(from.way),
        seat.ends().lower->passed(seat.messages.from_above(action, from.round)
                                      .gradients.at(from.way)),
        pulls);
  const PullResult pulled =
      vjp(asked.graph, asked.flight.inputs, flow.leaving, pulls,
          /*keep_graph=*/!is_last_visit(seat.plan(), action));
  add_to(asked.parameters, pulled.parameters);
  if (mine.leaving != GradientPart::kStays)
    seat.messages.send_down(action,
                            down_of(seat, pulled.inputs, asked.flight.inputs));
  end_visit(seat, action);
}

void sweep(SeatCore& seat, const Action& action) {
  const BackwardVisit& mine = visit_of_round(seat, action);
  PendingBackward& asked = opened_once(seat, action);
  if (mine.takes_input) forward_again(seat, action, asked);
  if (mine.goes_back || !mine.arrivals.empty()) ask_again(seat, action, asked);
  const bool leaves = mine.leaving != GradientPart::kStays;
  if (mine.goes_back && (mine.applied || leaves)) {
    const Pull pull{.signal = asked.signal.gradients,
                    .applied = mine.applied,
                    .leaving = mine.leaving};
    const PullResult pulled = vjp(asked.graph, asked.flight.inputs,
                                  seat.plan().gradients.leaving, {pull});
    asked.parameters = pulled.parameters;
    if (leaves)
      seat.messages.send_down(
          action, down_of(seat, pulled.inputs, asked.flight.inputs));
  }
  if (mine.publishes) send_up_again(seat, action, asked);
  end_visit(seat, action);
}

}  // namespace sluice::ops
