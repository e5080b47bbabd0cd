#include "lib/engines/control.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "lib/tensors/pack.h"

namespace sluice {
namespace {

constexpr const char* kBatchIndex = "index";
constexpr const char* kBatchInput = "input";
constexpr const char* kBatchLabel = "label";

}  // namespace

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

std::vector<Batch> batches_of_seat(const SeatNames& names, int seat,
                                   std::span<const Batch> batches) {
  std::vector<Batch> taken;
  if (names.block_of(seat) != 1) return taken;
  const int replicas = names.counts.empty()
                           ? names.replicas
                           : static_cast<int>(names.counts.front());
  // As MicroBatches::replica_with().
  for (int i = names.replica_of(seat) - 1; i < std::ssize(batches);
       i += replicas)
    taken.push_back(batches[static_cast<std::size_t>(i)]);
  return taken;
}

Message grant_message(const Grant& grant, std::span<const Batch> batches) {
  Message message = control_message(MessageKind::grant, grant);
  if (batches.empty()) return message;
  std::vector<std::int64_t> indices;
  Tensors inputs;
  Tensors labels;
  for (const Batch& batch : batches) {
    indices.push_back(batch.index);
    inputs.push_back(batch.inputs);
    labels.push_back(batch.labels);
  }
  pack({at::tensor(indices)}, kBatchIndex, message);
  pack(inputs, kBatchInput, message);
  pack(labels, kBatchLabel, message);
  for (TensorView& tensor : message.tensors) tensor = staged(std::move(tensor));
  return message;
}

std::vector<Batch> batches_of(const Message& message) {
  const Tensors inputs = unpack(message, kBatchInput);
  const Tensors labels = unpack(message, kBatchLabel);
  const Tensors indices = unpack(message, kBatchIndex);
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    batches.push_back({.index = indices.at(0).const_data_ptr<std::int64_t>()[i],
                       .inputs = inputs[i],
                       .labels = labels.at(i)});
  return batches;
}

}  // namespace sluice
