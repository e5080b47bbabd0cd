#include "lib/workers/seat_messages.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/messages/message.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/plan/traits.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/pack.h"

namespace sluice {

SeatMessages::SeatMessages(const MessagesSite& site, SeatParts& parts)
    : site_(site),
      coded_below_(std::move(parts.codecs_below), parts.site_below,
                   BoundarySide::above),
      coded_above_(std::move(parts.codecs_above), parts.site_above,
                   BoundarySide::below),
      sources_(std::move(parts.sources)) {}

Message SeatMessages::message_of(MessageKind kind, const Action& action) const {
  return {.kind = kind,
          .batch = action.batch,
          .turn = action.turn,
          .weight_version = site_.progress.version,
          .round = batch_round(action).round};
}

Payload SeatMessages::payload_of(const Batch& data) const {
  Payload payload{
      {on_device(laid_out(data.inputs, site_.settings.options.memory_format),
                 device())},
      data.labels};
  if (data.raw_inputs.defined())
    payload.attachments[kRawInput] = data.raw_inputs;
  if (data.ids.defined()) payload.attachments[kSampleIds] = data.ids;
  return payload;
}

Payload SeatMessages::read_training(std::int64_t batch) const {
  return payload_of(
      sources_.training->batch(plan().micro_batches.source_batch(batch)));
}

Payload SeatMessages::read_training(const Action& forward) const {
  const std::int64_t deal = plan().micro_batches.source_batch(forward.batch);
  const Batch data = sources_.training->batch(deal);
  site_.log.drew(forward, deal, data.learned);
  return payload_of(data);
}

Payload SeatMessages::input(const Action& forward) {
  if (plan().block == 1) return read_training(forward);
  const Inbox::Input taken = site_.ports.input(forward);
  if (site_.ports.has_inbox()) site_.log.took(taken.age, taken.reuse);
  return unpack_up(taken.message, plan(),
                   coded_below_.activation(slot_of(forward.batch)), device());
}

Payload SeatMessages::evaluation_input(const Action& evaluate) {
  if (plan().block == 1)
    return payload_of(sources_.evaluation->batch(evaluate.batch));
  return unpack_up(site_.ports.evaluation(evaluate), plan(),
                   coded_below_.lone_activation(), device());
}

Payload SeatMessages::from_below(const Action& action, const Coding& coding) {
  return unpack_up(site_.ports.from_below(MessageKind::activation, action),
                   plan(), coding, device());
}

Payload SeatMessages::lesson_input(const Action& action) {
  return from_below(action, coded_below_.activation(slot_of(action.batch)));
}

Payload SeatMessages::input_again(const Action& visit) {
  return from_below(visit, coded_below_.activation(slot_of(visit.batch)));
}

/// Place of a batch of training among those of its turn.
std::int64_t SeatMessages::slot_of(std::int64_t batch) const {
  return batch % plan().micro_batches.in_turn();
}

void SeatMessages::send_up(Message message, const Tensors& outputs,
                           const Payload& fed) {
  if (site_.place.is_last()) return;
  if (message.kind == MessageKind::activation) {
    const auto samples = fed.attachments.find(kSampleIds);
    pack_up(
        outputs, fed, plan().lower.relays,
        coded_above_.activation(
            slot_of(message.batch),
            samples != fed.attachments.end() ? samples->second : at::Tensor()),
        message);
  } else {
    pack_up(outputs, fed, {}, coded_above_.lone_activation(), message);
  }
  give_above(std::move(message));
}

void SeatMessages::give_above(Message message) {
  if (message.kind == MessageKind::activation)
    sent_up_bytes_ += static_cast<std::int64_t>(payload_bytes(message));
  site_.ports.send_up(std::move(message));
}

void SeatMessages::send_up_again(Message message, const Tensors& published,
                                 const at::Tensor& labels) {
  pack_up(published, {.features = {}, .labels = labels}, {},
          coded_above_.activation(slot_of(message.batch)), message);
  give_above(std::move(message));
}

DownPayload SeatMessages::from_above(const Action& action, std::int64_t round) {
  Action taken = action;
  taken.round = round;
  const Message message = site_.ports.from_above(MessageKind::gradient, taken);
  if (site_.norm.goes_with_gradients()) site_.norm.take(message);
  DownPayload down =
      unpack_down(message, site_.place.above(),
                  coded_above_.gradient(slot_of(action.batch)), device());
  if (brings_losses())
    if (const Tensors losses = unpack(message, kLosses); !losses.empty())
      down.losses = losses[0];
  return down;
}

bool SeatMessages::brings_losses() const {
  return site_.settings.tells_losses || plan().exchange.adopts.every > 0;
}

void SeatMessages::give_losses(const Action& action, const at::Tensor& losses,
                               Figures& figures) {
  if (plan().block != 1 || !site_.settings.tells_losses || !losses.defined())
    return;
  for (auto& figure : sources_.training->learn(
           plan().micro_batches.source_batch(action.batch), losses))
    figures.push_back(std::move(figure));
}

void SeatMessages::send_down(const Action& action, const DownPayload& down) {
  send_down(action, down, coded_below_.gradient(slot_of(action.batch)));
}

/// The payload of the message, as it is remembered: sent again without a state
/// it gives what came the first time.
DownPayload SeatMessages::to_send_again(const DownPayload& down,
                                        const Message& message) const {
  DownPayload kept = down;
  if (coded_below_.remembers_gradients() && under_way_below() > 0)
    kept.gradients =
        unpack_down(message, plan(), coded_below_.lone_gradient(), device())
            .gradients;
  return kept;
}

void SeatMessages::send_down(const Action& action, const DownPayload& down,
                             const Coding& coding) {
  if (!plan().gradient_to_below() && !plan().answers()) return;
  Message message = message_of(MessageKind::gradient, action);
  pack_down(down, coding, message);
  if (!site_.settings.checkpoint_folder.empty())
    sent_down_.remember(action.batch, to_send_again(down, message),
                        under_way_below());
  if (site_.norm.goes_with_gradients()) site_.norm.put_into(message);
  sent_down_bytes_ += static_cast<std::int64_t>(payload_bytes(message));
  site_.ports.send_down(std::move(message));
}

/// Number of gradients that the block below may not have taken yet when both
/// have done the same turns. A block that runs free may have taken none of
/// those it waits for.
std::int64_t SeatMessages::under_way_below() const {
  const BlockPlan& below = site_.place.below();
  return below.free.in_flight > 0
             ? below.free.in_flight - 1
             : (gradient_taken_after(below).value_or(0) - plan().delay) *
                   plan().micro_batches.in_turn();
}

// The codec has taken account of what is sent again.

void SeatMessages::send_again(const std::vector<std::int64_t>& batches) {
  const std::map<std::int64_t, DownPayload> sent = sent_down_.take();
  for (const std::int64_t batch : batches)
    send_down({.batch = batch}, sent.at(batch), coded_below_.lone_gradient());
}

void SeatMessages::send_all_again() {
  for (const auto& [batch, down] : sent_down_.take())
    send_down({.batch = batch}, down, coded_below_.lone_gradient());
}

std::int64_t SeatMessages::bytes() const {
  return sent_down_.bytes() + coded_below_.bytes() + coded_above_.bytes();
}

void SeatMessages::save_sent(NamedTensors& all) const {
  sent_down_.save(fmt::format("sent.{}", plan().block), all);
}

void SeatMessages::restore_sent(const SavedState& saved) {
  sent_down_.restore(fmt::format("sent.{}", plan().block), saved,
                     sent_in(saved), device());
}

/// Batches that were under way to the block below: of a free run those that it
/// had not taken when it was saved.
std::vector<std::int64_t> SeatMessages::sent_in(const SavedState& saved) const {
  std::vector<std::int64_t> batches =
      saved.numbers_below(fmt::format("sent.{}", plan().block));
  if (plan().free.in_flight == 0) return batches;
  const std::vector<std::int64_t> awaited = awaited_below(saved);
  std::erase_if(batches, [&](std::int64_t batch) {
    return !std::binary_search(awaited.begin(), awaited.end(), batch);
  });
  return batches;
}

/// Batches whose gradients the block below had not taken when it was saved.
std::vector<std::int64_t> SeatMessages::awaited_below(
    const SavedState& saved) const {
  if (plan().block == 1) return {};
  const auto batches = [&](const char* what) {
    return saved.numbers_below(fmt::format("{}.{}", what, plan().block - 1));
  };
  std::vector<std::int64_t> awaited = batches("flights");
  if (site_.place.below().gradients.from_above) return awaited;
  const std::vector<std::int64_t> lessons = batches("lessons");
  awaited.insert(awaited.begin(), lessons.begin(), lessons.end());
  return awaited;
}

void SeatMessages::save_codecs(NamedTensors& all) const {
  coded_below_.save(all);
  coded_above_.save(all);
}

void SeatMessages::restore_codecs(const NamedTensors& state) {
  coded_below_.restore(state);
  coded_above_.restore(state);
}

void SeatMessages::save_source(NamedTensors& all) const {
  if (!sources_.training) return;
  for (auto& named : sources_.training->state())
    all.push_back(std::move(named));
}

void SeatMessages::restore_source(const NamedTensors& state,
                                  std::string_view from) {
  if (sources_.training) sources_.training->restore(state, from);
}

}  // namespace sluice
