// What a seat takes from its sources and neighbours, and what it gives them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/base/by_block.h"
#include "lib/base/messages/message.h"
#include "lib/blocks/block.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/plan/traits.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/pack.h"
#include "lib/workers/payloads.h"
#include "lib/workers/seat.h"

namespace sluice {
Message Seat::message_of(MessageKind kind, const Action& action) const {
  return {.kind = kind,
          .batch = action.batch,
          .turn = action.turn,
          .weight_version = version_,
          .round = batch_round(action).round};
}

Payload Seat::read(Source& source, std::int64_t batch) const {
  const Batch data = source.batch(batch);
  Payload payload{
      {on_device(laid_out(data.inputs, settings_.options.memory_format),
                 device())},
      data.labels};
  if (data.raw_inputs.defined())
    payload.attachments[kRawInput] = data.raw_inputs;
  if (data.ids.defined()) payload.attachments[kSampleIds] = data.ids;
  return payload;
}

/// The input of a training batch, received or read.
Payload Seat::input(const Action& action) {
  if (block() == 1)
    return read(*sources_.training,
                plan().micro_batches.source_batch(action.batch));
  const Inbox::Input taken = ports_.input(action);
  if (ports_.has_inbox()) log_.took(taken.age, taken.reuse);
  return unpack_up(taken.message, plan(),
                   coded_below_.activation(slot_of(action)), device());
}

Payload Seat::evaluation_input(const Action& action) {
  if (block() == 1) return read(*sources_.evaluation, action.batch);
  return unpack_up(ports_.evaluation(action), plan(),
                   coded_below_.lone_activation(), device());
}

/// Place of a batch of training among those of its turn.
std::int64_t Seat::slot_of(const Action& action) const {
  return action.batch % plan().micro_batches.in_turn();
}

InputContext Seat::input_context(const Action& action) {
  InputContext context{.turn = action.turn,
                       .batch = action.batch,
                       .pass = pass_for(action.batch, true),
                       .device = device()};
  if (plan().forwards_data())
    context.data = [this,
                    batch = plan().micro_batches.source_batch(action.batch)] {
      return read(*sources_.training, batch);
    };
  return context;
}

void Seat::send_up(Message message, const Tensors& outputs,
                   const Payload& fed) {
  if (is_last()) return;
  if (message.kind == MessageKind::activation) {
    const auto samples = fed.attachments.find(kSampleIds);
    pack_up(
        outputs, fed, plan().lower.relays,
        coded_above_.activation(
            message.batch % plan().micro_batches.in_turn(),
            samples != fed.attachments.end() ? samples->second : at::Tensor()),
        message);
  } else {
    pack_up(outputs, fed, {}, coded_above_.lone_activation(), message);
  }
  ports_.send_up(std::move(message));
}

DownPayload Seat::receive_from_above(const Action& action, std::int64_t round) {
  Action taken = action;
  taken.round = round;
  const Message message = ports_.from_above(MessageKind::gradient, taken);
  if (run_plan().model_norm && !is_norm_of_exchanged(run_plan(), number_))
    take_norm(message);
  DownPayload down =
      unpack_down(message, by_block(run_plan().blocks, block() + 1),
                  coded_above_.gradient(slot_of(action)), device());
  if (brings_losses())
    if (const Tensors losses = unpack(message, kLosses); !losses.empty())
      down.losses = losses[0];
  return down;
}

/// Whether those of the last block come down with the gradients: to the source,
/// or to the replicas of each block, which choose the best one by them.
bool Seat::brings_losses() const {
  return settings_.tells_losses || plan().exchange.adopts.every > 0;
}

/// Losses of each sample by itself, for the source, whatever the run's loss is
/// made of: as evaluations report it. For replicas the one that they train by.
at::Tensor Seat::losses_of(const PendingBackward& asked) const {
  const at::NoGradGuard no_grad;
  if (!settings_.tells_losses)
    return asked.signal.loss.detach().to(at::kCPU, at::kDouble).reshape({1});
  const at::Tensor& outputs = asked.graph.outputs.at(0);
  const at::Tensor& labels = asked.flight.labels;
  Tensors losses;
  losses.reserve(static_cast<std::size_t>(outputs.size(0)));
  for (std::int64_t i = 0; i < outputs.size(0); ++i)
    losses.push_back(
        settings_.loss(outputs.narrow(0, i, 1), labels.narrow(0, i, 1)));
  return at::stack(losses).to(at::kCPU, at::kDouble);
}

/// The losses have come down to where the batch came from.
void Seat::tell_source(const Action& action, PendingBackward& asked) {
  if (block() != 1 || !settings_.tells_losses || !asked.losses.defined())
    return;
  for (auto& figure : sources_.training->learn(
           plan().micro_batches.source_batch(action.batch), asked.losses))
    asked.signal.figures.push_back(std::move(figure));
}

DownPayload Seat::down_of(std::vector<Tensors> gradients,
                          const Tensors& inputs) const {
  if (!plan().forwards_data())
    for (Tensors& way : gradients) way = masked(way, inputs, coded_below_.up());
  DownPayload down{std::move(gradients)};
  if (plan().gradients.returns_input) down.returned = leaves_of(inputs, false);
  if (plan().answers()) down.answer = ends().upper->answer(block_);
  return down;
}

void Seat::send_down(const Action& action, const DownPayload& down) {
  send_down(action, down, coded_below_.gradient(slot_of(action)));
}

/// Sends what SentPayloads gave: the codec has taken account of it.
void Seat::send_down_again(std::int64_t batch, const DownPayload& down) {
  send_down({.batch = batch}, down, coded_below_.lone_gradient());
}

/// The payload of the message, as it is remembered: sent again without a state
/// it gives what came the first time.
DownPayload Seat::to_send_again(const DownPayload& down,
                                const Message& message) const {
  DownPayload kept = down;
  if (coded_below_.remembers_gradients() && under_way_below() > 0)
    kept.gradients =
        unpack_down(message, plan(), coded_below_.lone_gradient(), device())
            .gradients;
  return kept;
}

void Seat::send_down(const Action& action, const DownPayload& down,
                     const Coding& coding) {
  if (!plan().gradient_to_below() && !plan().answers()) return;
  Message message = message_of(MessageKind::gradient, action);
  pack_down(down, coding, message);
  if (!settings_.checkpoint_folder.empty())
    sent_down_.remember(action.batch, to_send_again(down, message),
                        under_way_below());
  if (run_plan().model_norm && !is_norm_of_exchanged(run_plan(), number_))
    pack({squared_norms()}, "norm", message);
  ports_.send_down(std::move(message));
}

/// Number of gradients that the block below may not have taken yet when both
/// have done the same turns. A block that runs free may have taken none of
/// those it waits for.
std::int64_t Seat::under_way_below() const {
  // The plan of its first replica, which is that of all.
  const BlockPlan& below = by_block(run_plan().blocks, block() - 1);
  return below.free.in_flight > 0
             ? below.free.in_flight - 1
             : (gradient_taken_after(below).value_or(0) - plan().delay) *
                   plan().micro_batches.in_turn();
}

}  // namespace sluice
