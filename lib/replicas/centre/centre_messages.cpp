#include "lib/replicas/centre/centre_messages.h"

#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/tensors/pack.h"

namespace sluice {
namespace {

/// Whole numbers of a push, before a flag for each tensor: whether it is
/// defined.
constexpr std::int64_t kNumbers = 9;

/// Whole numbers of a loss.
constexpr std::int64_t kNumbersOfLoss = 5;

/// The only tensor of that name, which has this type and `least` elements or
/// more.
at::Tensor one_in(const Message& message, const char* name, at::ScalarType type,
                  std::int64_t least) {
  const Tensors found = unpack(message, name);
  if (found.size() != 1 || found[0].scalar_type() != type ||
      found[0].dim() != 1 || found[0].numel() < least)
    throw LinkError("a replica and its centre: a message has no {}", name);
  return found[0];
}

void pack_numbers(const std::vector<std::int64_t>& numbers, const char* name,
                  Message& message) {
  pack({at::tensor(numbers, at::kLong)}, name, message);
}

std::vector<std::int64_t> numbers_in(const Message& message, const char* name,
                                     std::int64_t least) {
  const at::Tensor found = one_in(message, name, at::kLong, least).contiguous();
  const auto* first = found.const_data_ptr<std::int64_t>();
  return {first, first + found.numel()};
}

void pack_text(const std::string& text, const char* name, Message& message) {
  const at::Tensor bytes = at::empty({std::ssize(text)}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr<std::uint8_t>(), text.data(), text.size());
  pack({bytes}, name, message);
}

std::string text_in(const Message& message, const char* name) {
  const at::Tensor bytes = one_in(message, name, at::kByte, 0).contiguous();
  return {reinterpret_cast<const char*>(bytes.const_data_ptr<std::uint8_t>()),
          static_cast<std::size_t>(bytes.numel())};
}

/// Tensors with their names, which end with a new line each.
void pack_named(const NamedTensors& named, const std::string& name,
                Message& message) {
  std::string names;
  for (const auto& [each, tensor] : named) names += each + '\n';
  pack_text(names, (name + ".names").c_str(), message);
  pack(values_of(named), name, message);
}

NamedTensors named_in(const Message& message, const std::string& name) {
  const std::string names = text_in(message, (name + ".names").c_str());
  NamedTensors named;
  std::size_t begin = 0;
  for (at::Tensor& tensor : unpack(message, name)) {
    const std::size_t end = names.find('\n', begin);
    if (end == std::string::npos)
      throw LinkError("a replica and its centre: {} without a name", name);
    named.emplace_back(names.substr(begin, end - begin), std::move(tensor));
    begin = end + 1;
  }
  return named;
}

void pack_batches(const DealtBatches& batches, Message& message) {
  pack_numbers(batches.returned, "again", message);
  std::vector<std::int64_t> held;
  for (const auto& [replica, batch] : batches.held)
    held.insert(held.end(), {replica, batch});
  pack_numbers(held, "held", message);
  pack_numbers(batches.served, "served", message);
}

DealtBatches batches_in(const Message& message) {
  DealtBatches batches{.returned = numbers_in(message, "again", 0),
                       .served = numbers_in(message, "served", 0)};
  const std::vector<std::int64_t> held = numbers_in(message, "held", 0);
  if (held.size() % 2 != 0)
    throw LinkError("a replica and its centre: a batch without its replica");
  for (std::size_t i = 0; i < held.size(); i += 2)
    batches.held.emplace_back(static_cast<int>(held[i]), held[i + 1]);
  return batches;
}

Tensors defined_of(const Tensors& tensors) {
  Tensors all;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) all.push_back(tensor);
  return all;
}

}  // namespace

CentreMessage said_in(const Message& message) {
  const bool is_known =
      message.kind == MessageKind::exchange && message.round >= 0 &&
      message.round <= static_cast<std::int64_t>(CentreMessage::failure);
  if (!is_known)
    throw LinkError("a replica and its centre: a message of kind {}, {}",
                    name_of(message.kind), message.round);
  return static_cast<CentreMessage>(message.round);
}

Message message_for(CentreMessage said) {
  return {.kind = MessageKind::exchange,
          .round = static_cast<std::int64_t>(said)};
}

Message message_of(const CentreOpening& opening) {
  Message message = message_for(CentreMessage::open);
  message.batch = opening.clock;
  pack_named(opening.parameters, "parameters", message);
  pack_named(opening.state, "state", message);
  const std::vector<std::int64_t> returning(opening.returning.begin(),
                                            opening.returning.end());
  pack_numbers(returning, "returning", message);
  pack_batches(opening.batches, message);
  return message;
}

CentreOpening opening_in(const Message& message) {
  CentreOpening opening{.parameters = named_in(message, "parameters"),
                        .clock = message.batch,
                        .state = named_in(message, "state"),
                        .batches = batches_in(message)};
  for (const std::int64_t member : numbers_in(message, "returning", 0))
    opening.returning.push_back(static_cast<int>(member));
  return opening;
}

Message message_of(const Push& push, CentreMessage said) {
  Message message = message_for(said);
  message.batch = push.batch;
  const UpdateInfo& info = push.info;
  std::vector<std::int64_t> numbers = {info.turn,
                                       info.batches,
                                       info.turns,
                                       info.in_batches.sum,
                                       info.in_batches.most,
                                       info.in_updates.sum,
                                       info.in_updates.most,
                                       push.clock,
                                       push.updates};
  for (const at::Tensor& tensor : push.tensors)
    numbers.push_back(tensor.defined() ? 1 : 0);
  pack_numbers(numbers, "numbers", message);
  pack({at::tensor({push.info.rate, push.loss}, at::kDouble)}, "reals",
       message);
  pack(defined_of(push.tensors), "x", message);
  return message;
}

Push push_in(const Message& message, int member) {
  const std::vector<std::int64_t> said =
      numbers_in(message, "numbers", kNumbers);
  Push push{.member = member,
            .clock = said[7],
            .batch = message.batch,
            .updates = said[8]};
  push.info.turn = said[0];
  push.info.batches = said[1];
  push.info.turns = said[2];
  push.info.in_batches = {said[3], said[4]};
  push.info.in_updates = {said[5], said[6]};
  const at::Tensor reals = one_in(message, "reals", at::kDouble, 2);
  push.info.rate = reals[0].item<double>();
  push.loss = reals[1].item<double>();
  const Tensors sent = unpack(message, "x");
  std::size_t next = 0;
  for (auto i = static_cast<std::size_t>(kNumbers); i < said.size(); ++i) {
    push.tensors.emplace_back();
    if (said[i] == 0) continue;
    if (next == sent.size())
      throw LinkError("replica {} has sent too few tensors to the centre",
                      member);
    push.tensors.back() = sent[next++];
  }
  return push;
}

Message message_of(std::int64_t number, CentreMessage said) {
  Message message = message_for(said);
  message.batch = number;
  return message;
}

std::int64_t number_in(const Message& message) {
  return message.batch;
}

Message message_of(const ServerAnswer& served) {
  Message message = message_for(CentreMessage::push);
  message.batch = served.place;
  message.turn = served.clock;
  message.weight_version = served.missed;
  pack({at::full({1}, served.rate, at::kDouble)}, "rate", message);
  pack(served.tensors, "x", message);
  return message;
}

ServerAnswer served_in(const Message& message) {
  return {.tensors = unpack(message, "x"),
          .place = message.batch,
          .rate = one_in(message, "rate", at::kDouble, 1).item<double>(),
          .clock = message.turn,
          .missed = message.weight_version};
}

Message message_of(const MergeResult& merged) {
  Message message = message_of(merged.served);
  message.round = static_cast<std::int64_t>(CentreMessage::take);
  pack_numbers({merged.is_late ? 1 : 0, merged.absent, merged.turn}, "merged",
               message);
  return message;
}

MergeResult merged_in(const Message& message) {
  const std::vector<std::int64_t> said = numbers_in(message, "merged", 3);
  return {.served = served_in(message),
          .is_late = said[0] != 0,
          .absent = said[1],
          .turn = said[2]};
}

Message message_of(const DealRequest& request) {
  Message message = message_for(CentreMessage::deal);
  message.batch = request.first;
  message.turn = request.end;
  return message;
}

DealRequest deal_in(const Message& message) {
  return {.first = message.batch, .end = message.turn};
}

/// One more than the batch: 0 is none.
Message message_of_dealt(std::optional<std::int64_t> batch) {
  return message_of(batch.value_or(-1) + 1, CentreMessage::deal);
}

std::optional<std::int64_t> dealt_in(const Message& message) {
  if (message.batch == 0) return std::nullopt;
  return message.batch - 1;
}

Message message_of_arrival(const Tensors& statistics) {
  Message message = message_for(CentreMessage::arrival);
  pack(statistics, "x", message);
  return message;
}

Tensors statistics_in(const Message& message) {
  return unpack(message, "x");
}

Message message_of_rest(const CentreAtRest* rest) {
  Message message = message_for(CentreMessage::arrival);
  if (rest == nullptr) return message;
  message.batch = rest->kept_bytes;
  pack(rest->weights, "weights", message);
  pack(rest->statistics, "statistics", message);
  pack(rest->visitors, "visitors", message);
  pack_named(rest->state, "state", message);
  pack_batches(rest->batches, message);
  std::vector<std::int64_t> losses;
  for (const CentreLoss& loss : rest->losses)
    losses.insert(losses.end(), {loss.member, loss.place, loss.served,
                                 loss.merged, loss.rests ? 1 : 0});
  pack_numbers(losses, "losses", message);
  if (rest->awaited)
    pack({at::full({1}, *rest->awaited, at::kDouble)}, "awaited", message);
  return message;
}

std::optional<CentreAtRest> rest_in(const Message& message) {
  if (message.tensors.empty()) return std::nullopt;
  CentreAtRest rest{.weights = unpack(message, "weights"),
                    .statistics = unpack(message, "statistics"),
                    .visitors = unpack(message, "visitors"),
                    .state = named_in(message, "state"),
                    .batches = batches_in(message),
                    .kept_bytes = message.batch};
  const std::vector<std::int64_t> losses = numbers_in(message, "losses", 0);
  if (std::ssize(losses) % kNumbersOfLoss != 0)
    throw LinkError("a replica and its centre: a loss lacks numbers");
  for (auto at = losses.begin(); at != losses.end(); at += kNumbersOfLoss)
    rest.losses.push_back({.member = static_cast<int>(at[0]),
                           .place = at[1],
                           .served = at[2],
                           .merged = at[3],
                           .rests = at[4] != 0});
  if (!unpack(message, "awaited").empty())
    rest.awaited = one_in(message, "awaited", at::kDouble, 1).item<double>();
  return rest;
}

Message message_of(const CentreEntry& entry) {
  Message message = message_of(entry.served);
  message.round = static_cast<std::int64_t>(CentreMessage::entry);
  pack(entry.statistics, "statistics", message);
  return message;
}

CentreEntry entry_in(const Message& message) {
  return {.served = served_in(message),
          .statistics = unpack(message, "statistics")};
}

Message message_of(const CentreFailure& failure) {
  Message message = message_of(failure.is_gone ? 1 : 0, CentreMessage::failure);
  pack_text(failure.text, "text", message);
  return message;
}

CentreFailure failure_in(const Message& message) {
  return {.text = text_in(message, "text"), .is_gone = message.batch != 0};
}

}  // namespace sluice
