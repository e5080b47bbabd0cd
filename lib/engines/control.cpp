#include "lib/engines/control.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>

#include "lib/base/error.h"
#include "lib/metrics/clock_offset.h"
#include "lib/tensors/pack.h"
#include "lib/tensors/staged_sender.h"

namespace sluice {
namespace {

bool flag(const Record& record, std::string_view name) {
  return record.number(name, 0) != 0;
}

}  // namespace

std::string text_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch ? torch->what_without_backtrace() : error.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Cause cause_of(const std::exception& error) {
  if (dynamic_cast<const PeerGone*>(&error) != nullptr) return Cause::peer_gone;
  return dynamic_cast<const LinkError*>(&error) != nullptr ? Cause::link
                                                           : Cause::own;
}

Record to_record(const Failure& failure) {
  Record record;
  record.set("cause", static_cast<std::int64_t>(failure.cause));
  record.set("text", failure.text);
  return record;
}

Failure failure_from(const Record& record, int block) {
  const std::int64_t cause =
      std::clamp<std::int64_t>(record.integer("cause"), 0, 2);
  return {block, static_cast<Cause>(cause), record.text("text")};
}

void throw_failure(const Failure& failure) {
  if (failure.cause == Cause::own)
    throw UserError("block {}: {}", failure.block, failure.text);
  throw LinkError("block {}: {}", failure.block, failure.text);
}

Message control_message(MessageKind kind, const Record& record) {
  const std::string text = to_json(record);
  TensorView view;
  view.name = "json";
  view.dtype = DType::uint8;
  view.sizes = {static_cast<std::int64_t>(text.size())};
  view.strides = {1};
  view.buffer = allocate_buffer(text.size());
  std::memcpy(view.buffer.data, text.data(), text.size());
  Message message{.kind = kind};
  message.tensors.push_back(std::move(view));
  return message;
}

Record record_of(const Message& message) {
  if (message.tensors.empty() || message.tensors[0].name != "json")
    throw LinkError("a {} message without its text", name_of(message.kind));
  const Buffer& buffer = message.tensors[0].buffer;
  return record_from_json(
      {reinterpret_cast<const char*>(buffer.data), buffer.bytes});
}

Message clock_question() {
  return control_message(MessageKind::clock, {});
}

Message clock_answer() {
  Record record;
  record.set("time", steady_seconds());
  return control_message(MessageKind::clock, record);
}

Record actions_record(int block, std::int64_t phase,
                      const std::string& actions) {
  Record record;
  record.set("kind", "actions");
  record.set("block", std::int64_t{block});
  record.set("phase", phase);
  record.set("actions", actions);
  return record;
}

Record to_record(const Grant& grant) {
  Record record;
  record.set("first_turn", grant.first_turn);
  record.set("end_turn", grant.end_turn);
  record.set("phase", grant.phase);
  record.set("first_batch", grant.first_batch);
  record.set("drain", std::int64_t{grant.drain});
  record.set("evaluation_batches", grant.evaluation_batches);
  record.set("checkpoint", std::int64_t{grant.checkpoint});
  record.set("finish", std::int64_t{grant.finish});
  record.set("part", static_cast<std::int64_t>(grant.part));
  return record;
}

Grant grant_from(const Record& record) {
  return {.first_turn = record.integer("first_turn"),
          .end_turn = record.integer("end_turn"),
          .phase = record.integer("phase"),
          .first_batch = record.integer("first_batch"),
          .drain = flag(record, "drain"),
          .evaluation_batches = record.integer("evaluation_batches"),
          .checkpoint = flag(record, "checkpoint"),
          .finish = flag(record, "finish"),
          .part = static_cast<TurnPart>(record.integer("part"))};
}

Message grant_message(const Grant& grant, const Batch* batch) {
  Message message = control_message(MessageKind::grant, to_record(grant));
  if (!batch) return message;
  message.batch = batch->index;
  pack({batch->inputs}, "input", message);
  pack({batch->labels}, "label", message);
  for (TensorView& tensor : message.tensors) tensor = staged(std::move(tensor));
  return message;
}

std::optional<Batch> batch_of(const Message& message) {
  if (message.tensors.size() == 1) return std::nullopt;
  return Batch{.index = message.batch,
               .inputs = unpack(message, "input").at(0),
               .labels = unpack(message, "label").at(0)};
}

}  // namespace sluice
