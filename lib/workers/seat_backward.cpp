// The backward of a seat.
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/blocks/evaluation.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/pack.h"
#include "lib/workers/payloads.h"
#include "lib/workers/seat.h"
#include "lib/workers/vjp.h"

namespace sluice {
namespace {

/// Round of the one message that a backward takes where a batch has one visit.
std::int64_t round_from_above(const BlockPlan& plan) {
  return plan.visits.empty() ? 0 : plan.visits.front().arrivals.at(0).round;
}

}  // namespace

/// A batch whose backward begins, with its graph. `returned`: the block's
/// output of it, where it came back.
PendingBackward Seat::opened(const Action& action, Tensors returned) {
  PendingBackward asked{.flight = held_.take_flight(action.batch)};
  asked.flight.returned = std::move(returned);
  if (settings_.optimizer.wants_forward_weights)
    asked.forward_weights = view_->weights_of(asked.flight);
  asked.graph = view_->graph_of(asked.flight, version_);
  memory_use_.raise_to(held_.memory(*view_, asked.flight.graph_bytes));
  return asked;
}

/// Backward of what comes from above, as the end above the block takes it.
PendingBackward Seat::ask_above(const Action& action) {
  last_turn_ = action.turn;
  check_staleness(action);
  DownPayload arrived;
  if (plan().gradients.from_above)
    arrived = receive_from_above(action, round_from_above(plan()));
  Tensors target_above;
  if (plan().gradients.target_from_above) {
    target_above = std::move(arrived.gradients.back());
    arrived.gradients.pop_back();
  }
  const bool is_one =
      plan().gradients.are_merged() && !arrived.gradients.empty();
  const Tensors from_above = is_one ? arrived.gradients.front() : Tensors();
  PendingBackward asked = opened(action, std::move(arrived.returned));
  const Flight& flight = asked.flight;
  const Tensors features = leaves_of(asked.graph.outputs, true);
  const WriteCheck unchanged({&from_above, &target_above, &features});
  asked.pulls = pulls_of(plan(),
                         {.turn = action.turn,
                          .batch = action.batch,
                          .features = features,
                          .labels = flight.labels,
                          .from_above = from_above,
                          .pass = flight.pass,
                          .attachments = flight.attachments,
                          .target_above = target_above,
                          .share = share_of(action)},
                         arrived.gradients, *ends().lower,
                         ends().trained.size(), asked.signal);
  unchanged.check(fmt::format("the policy above block {}", block()));
  if (brings_losses())
    asked.losses = is_last() ? losses_of(asked) : std::move(arrived.losses);
  if (plan().lower.learns)
    asked.lesson = {
        leaves_of(features, false),
        flight.labels,
        target_above.empty() ? sum_of(arrived.gradients) : target_above,
        flight.pass,
        arrived.answer,
        flight.attachments};
  return asked;
}

/// The gradients are part of the next update.
void Seat::apply(const Action& action, const PendingBackward& asked,
                 const Tensors& parameters) {
  const Flight& flight = asked.flight;
  const Signal& signal = asked.signal;
  const std::int64_t in_batches = plan().staleness_of(action);
  const std::int64_t in_updates = version_ - flight.version;
  window_.add(
      trained_.in_order(parameters, signal.parameter_gradients, phase()),
      action.batch, plan().micro_batches, weight_of(action));
  window_.in_batches.add(in_batches);
  window_.in_updates.add(in_updates);
  window_.forward_weights = asked.forward_weights;
  at::Tensor correct;
  if (signal.logits.defined() && is_logged(action))
    correct = correct_of(signal.logits, flight.labels);
  log_.applied(action, in_batches,
               {.loss = signal.loss,
                .correct = correct,
                .labels = predictions_in(flight.labels),
                .share = plan().micro_batches.part_of_turn(action.batch),
                .figures = signal.figures});
  replicas_.lost(asked.losses, share_of(action));
  // With a centre or shared weights, lateness is known only later: others may
  // come before this gradient.
  if (const auto in_steps = replicas_.late_by(in_updates))
    tell_late(action, in_updates, *in_steps);
  else if (replicas_.pushes_gradients())
    known_late_.push_back(in_updates);
  watched_.applied(action, plan().micro_batches.source_batch(action.batch),
                   parameters);
}

void Seat::backward(const Action& action) {
  if (plan().sweeps) return sweep(action);
  if (plan().rounds() > 1) return visit(action);
  PendingBackward asked = ask_above(action);
  const PullResult pulled = vjp(asked.graph, asked.flight.inputs,
                                plan().gradients.leaving, asked.pulls);
  tell_source(action, asked);
  apply(action, asked, pulled.parameters);
  DownPayload down = down_of(pulled.inputs, asked.flight.inputs);
  down.losses = asked.losses;
  send_down(action, down);
  if (plan().lower.learns)
    held_.lessons[action.batch] = std::move(asked.lesson);
}

void Seat::backward_input(const Action& action) {
  SLUICE_CHECK(!run_plan().model_norm,
               "block {}: the norm goes down with the gradients of the weights",
               block());
  PendingBackward asked = ask_above(action);
  const std::vector<Tensors> pulled =
      vjp_inputs(asked.graph, asked.flight.inputs, plan().gradients.leaving,
                 asked.pulls, asked.halves);
  send_down(action, down_of(pulled, asked.flight.inputs));
  held_.halves.emplace(action.batch, std::move(asked));
  note_memory();
}

void Seat::backward_weights(const Action& action) {
  PendingBackward asked = held_.take_half(action.batch);
  Tensors pulled = vjp_weights(asked.pulls, asked.halves);
  pulled.resize(asked.graph.parameters.size());
  apply(action, asked, pulled);
  if (plan().lower.learns)
    held_.lessons[action.batch] = std::move(asked.lesson);
}

void Seat::check_staleness(const Action& action) const {
  const std::int64_t staleness = plan().staleness_of(action);
  if (staleness <= settings_.options.max_staleness) return;
  throw UserError(
      "block {}: in turn {} it would apply the gradient of batch {}, {} "
      "batches old; max_staleness is {}",
      block(), action.turn, action.batch, staleness,
      settings_.options.max_staleness);
}

/// Reports how late a gradient is, or those of so many batches, in updates of
/// the replica, and with the steps of others in between.
void Seat::tell_late(const Action& action, std::int64_t in_updates,
                     std::int64_t in_steps, std::int64_t batches) {
  log_.late_by(in_steps, batches);
  if (in_steps == in_updates || in_steps <= settings_.options.max_staleness)
    return;
  throw UserError(
      "block {}: in turn {} it would apply the gradient of batch {}, {} steps "
      "of the other replicas old; max_staleness is {}",
      block(), action.turn, action.batch, in_steps,
      settings_.options.max_staleness);
}

}  // namespace sluice
