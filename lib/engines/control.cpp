#include "lib/engines/control.h"

#include <cstring>
#include <utility>

#include "lib/base/error.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "lib/tensors/pack.h"

namespace sluice {

std::string text_of(const std::string& who, const std::string& text) {
  const std::string before = who + ": ";
  return text.starts_with(before) ? text : before + text;
}

Cause cause_of(const std::exception& error) {
  if (dynamic_cast<const PeerGoneError*>(&error) != nullptr)
    return Cause::peer_gone;
  return dynamic_cast<const LinkError*>(&error) != nullptr ? Cause::link
                                                           : Cause::own;
}

void throw_failure(const Failure& failure, const SeatNames& names) {
  const std::string text = text_of(names.of(failure.block), failure.text);
  if (failure.cause == Cause::own) throw UserError("{}", text);
  throw LinkError("{}", text);
}

Message bytes_message(MessageKind kind, const char* name,
                      std::string_view bytes) {
  TensorView view;
  view.name = name;
  view.dtype = DType::uint8;
  view.sizes = {static_cast<std::int64_t>(bytes.size())};
  view.strides = {1};
  view.buffer = allocate_buffer(bytes.size());
  std::memcpy(view.buffer.data, bytes.data(), bytes.size());
  Message message{.kind = kind};
  message.tensors.push_back(std::move(view));
  return message;
}

std::string_view bytes_of(const Message& message, const char* name) {
  if (message.tensors.empty() || message.tensors[0].name != name)
    throw_unreadable(message);
  const Buffer& buffer = message.tensors[0].buffer;
  return {reinterpret_cast<const char*>(buffer.data), buffer.bytes};
}

void throw_unreadable(const Message& message) {
  throw LinkError(
      "a {} message of {} bytes that this program can't read: run the same "
      "build in all processes",
      name_of(message.kind), payload_bytes(message));
}

Message record_message(const Record& record) {
  return bytes_message(MessageKind::record, "json", to_json(record));
}

Record record_of(const Message& message) {
  return record_from_json(bytes_of(message, "json"));
}

Message grant_message(const Grant& grant, const Batch* batch) {
  Message message = control_message(MessageKind::grant, grant);
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
