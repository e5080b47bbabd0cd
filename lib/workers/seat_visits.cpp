// The backward of a seat in several visits.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/blocks/block.h"
#include "lib/schedules/plan/gradient_part.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/pack.h"
#include "lib/weights/block_weights.h"
#include "lib/workers/payloads.h"
#include "lib/workers/seat.h"
#include "lib/workers/vjp.h"

namespace sluice {

/// Backward that the end above the block asks for by itself, if any: an end
/// that passes gradients on has none, a loss of its own says which part where
/// the reaches below differ.
PendingBackward Seat::ask_own(const Action& action) {
  last_turn_ = action.turn;
  check_staleness(action);
  PendingBackward asked = opened(action);
  const std::vector<GradientPart>& parts = plan().gradients.parts;
  if (std::none_of(parts.begin(), parts.end(),
                   [](const GradientPart& part) { return part.own; }))
    return asked;
  const Tensors features = leaves_of(asked.graph.outputs, true);
  const Tensors nothing;
  const WriteCheck unchanged({&features});
  asked.signal = signal_of({.turn = action.turn,
                            .batch = action.batch,
                            .features = features,
                            .labels = asked.flight.labels,
                            .from_above = nothing,
                            .pass = asked.flight.pass,
                            .attachments = asked.flight.attachments,
                            .share = share_of(action)},
                           *ends().lower, ends().trained.size());
  unchanged.check(fmt::format("the policy above block {}", block()));
  return asked;
}

/// Takes back the parts of the gradient that go the visit's way.
void Seat::visit(const Action& action) {
  const BackwardVisit& mine =
      plan().visits.at(static_cast<std::size_t>(action.round));
  if (action.round == 0) held_.halves.emplace(action.batch, ask_own(action));
  PendingBackward& asked = held_.halves.at(action.batch);
  std::vector<Pull> pulls;
  if (mine.own)
    add_part(plan().gradients.parts.front(), asked.signal.gradients, pulls);
  for (const Arrival& from : mine.arrivals)
    add_part(plan().gradients.arriving(from.way),
             ends().lower->passed(
                 receive_from_above(action, from.round).gradients.at(from.way)),
             pulls);
  const bool is_last = action.round + 1 == plan().rounds();
  const PullResult pulled =
      vjp(asked.graph, asked.flight.inputs, plan().gradients.leaving, pulls,
          /*keep_graph=*/!is_last);
  add_to(asked.parameters, pulled.parameters);
  if (mine.leaving != GradientPart::kStays)
    send_down(action, down_of(pulled.inputs, asked.flight.inputs));
  note_memory();
  if (!is_last) return;
  const PendingBackward done = held_.take_half(action.batch);
  apply(action, done, done.parameters);
}

/// Forwards once more, with what the visit takes from below.
void Seat::forward_again(const Action& action, PendingBackward& asked) {
  const Payload fed =
      unpack_up(ports_.from_below(MessageKind::activation, action), plan(),
                coded_below_.lone_activation(), device());
  asked.flight.inputs = leaves_of(fed.features, plan().gradient_to_below());
  const BufferGuard kept(block_);
  asked.graph.outputs = forward_with_graph(block_, asked.flight);
}

/// Asks for the signal again, with what the visit takes from above.
void Seat::ask_again(const Action& action, PendingBackward& asked) {
  const BackwardVisit& mine =
      plan().visits.at(static_cast<std::size_t>(action.round));
  Tensors from_above;
  for (const Arrival& from : mine.arrivals)
    from_above = receive_from_above(action, from.round).gradients.at(from.way);
  const Tensors features = leaves_of(asked.graph.outputs, true);
  const WriteCheck unchanged({&from_above, &features});
  asked.signal =
      signal_of({.turn = action.turn,
                 .batch = action.batch,
                 .features = features,
                 .labels = asked.flight.labels,
                 .from_above = from_above,
                 .pass = asked.flight.pass,
                 .attachments = asked.flight.attachments,
                 .share = share_of(action),
                 .visit = {.round = action.round,
                           .goes_back = mine.goes_back,
                           .is_last = action.round + 1 == plan().rounds()}},
                *ends().lower, ends().trained.size());
  unchanged.check(fmt::format("the policy above block {}", block()));
}

void Seat::send_up_again(const Action& action, const PendingBackward& asked) {
  SLUICE_CHECK(!asked.signal.published.empty(),
               "the policy above block {} publishes nothing in visit {}",
               block(), action.round);
  Message message = message_of(MessageKind::activation, action);
  message.round = action.round + 1;
  message.weight_version = asked.flight.version;
  const Payload again{.features = {}, .labels = asked.flight.labels};
  pack_up(asked.signal.published, again, {}, coded_above_.lone_activation(),
          message);
  ports_.send_up(std::move(message));
}

/// A visit in which the auxiliary variables of a batch move, or which tells
/// where to.
void Seat::sweep(const Action& action) {
  const BackwardVisit& mine =
      plan().visits.at(static_cast<std::size_t>(action.round));
  if (action.round == 0) {
    last_turn_ = action.turn;
    check_staleness(action);
    held_.halves.emplace(action.batch, opened(action));
  }
  PendingBackward& asked = held_.halves.at(action.batch);
  if (mine.takes_input) forward_again(action, asked);
  if (mine.goes_back || !mine.arrivals.empty()) ask_again(action, asked);
  const bool leaves = mine.leaving != GradientPart::kStays;
  if (mine.goes_back && (mine.applied || leaves)) {
    const Pull pull{.signal = asked.signal.gradients,
                    .applied = mine.applied,
                    .leaving = mine.leaving};
    const PullResult pulled =
        vjp(asked.graph, asked.flight.inputs, plan().gradients.leaving, {pull});
    asked.parameters = pulled.parameters;
    if (leaves) send_down(action, down_of(pulled.inputs, asked.flight.inputs));
  }
  if (mine.publishes) send_up_again(action, asked);
  note_memory();
  if (action.round + 1 < plan().rounds()) return;
  const PendingBackward done = held_.take_half(action.batch);
  apply(action, done, done.parameters);
}

}  // namespace sluice
