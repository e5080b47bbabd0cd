#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/pack.h"
#include "lib/workers/ops/ops.h"
#include "lib/workers/ops/parts_of_ops.h"
#include "lib/workers/trained/vjp.h"

namespace sluice::ops {
namespace {

/// Round of the one message that a backward takes where a batch has one visit.
std::int64_t round_from_above(const BlockPlan& plan) {
  return plan.visits.empty() ? 0 : plan.visits.front().arrivals.at(0).round;
}

/// Losses of each sample by itself, for the source, whatever the run's loss is
/// made of: as evaluations report it. For replicas the one that they train by.
at::Tensor losses_of(const SeatCore& seat, const PendingBackward& asked) {
  const at::NoGradGuard no_grad;
  if (!seat.settings.tells_losses)
    return asked.signal.loss.detach().to(at::kCPU, at::kDouble).reshape({1});
  const at::Tensor& outputs = asked.graph.outputs.at(0);
  const at::Tensor& labels = asked.flight.labels;
  Tensors losses;
  losses.reserve(static_cast<std::size_t>(outputs.size(0)));
  for (std::int64_t i = 0; i < outputs.size(0); ++i)
    losses.push_back(
        seat.settings.loss(outputs.narrow(0, i, 1), labels.narrow(0, i, 1)));
  return at::stack(losses).to(at::kCPU, at::kDouble);
}

/// Backward of what comes from above, as the end above the block takes it.
PendingBackward ask_above(SeatCore& seat, const Action& action) {
  const BlockPlan& plan = seat.plan();
  seat.progress.last_turn = action.turn;
  seat.late.check(action);
  DownPayload arrived;
  if (plan.gradients.from_above)
    arrived = seat.messages.from_above(action, round_from_above(plan));
  Tensors target_above;
  if (plan.gradients.target_from_above) {
    target_above = std::move(arrived.gradients.back());
    arrived.gradients.pop_back();
  }
  const bool is_one = plan.gradients.are_merged() && !arrived.gradients.empty();
  const Tensors from_above = is_one ? arrived.gradients.front() : Tensors();
  PendingBackward asked = opened(seat, action, std::move(arrived.returned));
  const Flight& flight = asked.flight;
  const Tensors features = leaves_of(asked.graph.outputs, true);
  const WriteCheck unchanged({&from_above, &target_above, &features});
  asked.pulls = pulls_of(plan,
                         {.turn = action.turn,
                          .batch = action.batch,
                          .features = features,
                          .labels = flight.labels,
                          .from_above = from_above,
                          .pass = flight.pass,
                          .attachments = flight.attachments,
                          .target_above = target_above,
                          .share = seat.share_of(action)},
                         arrived.gradients, *seat.ends().lower,
                         seat.ends().trained.size(), asked.signal);
  unchanged.check(fmt::format("the policy above block {}", plan.block));
  if (seat.messages.brings_losses())
    asked.losses = seat.place.is_last() ? losses_of(seat, asked)
                                        : std::move(arrived.losses);
  if (plan.lower.learns)
    asked.lesson = {
        leaves_of(features, false),
        flight.labels,
        target_above.empty() ? sum_of(arrived.gradients) : target_above,
        flight.pass,
        arrived.answer,
        flight.attachments};
  return asked;
}

void keep_lesson(SeatCore& seat, const Action& action, PendingBackward& asked) {
  if (seat.plan().lower.learns)
    seat.held.lessons[action.batch] = std::move(asked.lesson);
}

}  // namespace

void backward(SeatCore& seat, const Action& action) {
  PendingBackward asked = ask_above(seat, action);
  const PullResult pulled = vjp(asked.graph, asked.flight.inputs,
                                seat.plan().gradients.leaving, asked.pulls);
  seat.messages.give_losses(action, asked.losses, asked.signal.figures);
  apply(seat, action, asked, pulled.parameters);
  DownPayload down = down_of(seat, pulled.inputs, asked.flight.inputs);
  down.losses = asked.losses;
  seat.messages.send_down(action, down);
  keep_lesson(seat, action, asked);
}

void backward_input(SeatCore& seat, const Action& action) {
  SLUICE_CHECK(!seat.run_plan().model_norm,
               "block {}: the norm goes down with the gradients of the weights",
               seat.block.index());
  PendingBackward asked = ask_above(seat, action);
  const std::vector<Tensors> pulled =
      vjp_inputs(asked.graph, asked.flight.inputs,
                 seat.plan().gradients.leaving, asked.pulls, asked.halves);
  seat.messages.send_down(action, down_of(seat, pulled, asked.flight.inputs));
  seat.held.halves.emplace(action.batch, std::move(asked));
  seat.note_memory();
}

void backward_weights(SeatCore& seat, const Action& action) {
  PendingBackward asked = seat.held.take_half(action.batch);
  Tensors pulled = vjp_weights(asked.pulls, asked.halves);
  pulled.resize(asked.graph.parameters.size());
  apply(seat, action, asked, pulled);
  keep_lesson(seat, action, asked);
}

}  // namespace sluice::ops
