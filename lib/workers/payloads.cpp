#include "lib/workers/payloads.h"

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/pack.h"

namespace sluice {

std::int64_t DownPayload::bytes() const {
  std::int64_t bytes = bytes_of(answer) + bytes_of(returned);
  if (losses.defined()) bytes += static_cast<std::int64_t>(losses.nbytes());
  for (const Tensors& each : gradients) bytes += bytes_of(each);
  return bytes;
}

std::string gradient_name(std::size_t way) {
  return way == 0 ? "gradient" : fmt::format("gradient{}", way);
}

void pack_up(const Tensors& outputs, const Payload& fed,
             const std::vector<std::string>& attachments, const Coding& coding,
             Message& message) {
  pack(outputs, "h", coding, message);
  pack({fed.labels}, "label", message);
  for (const std::string& name : attachments)
    pack({fed.attachments.at(name)}, name, message);
}

Payload unpack_up(const Message& message, const BlockPlan& plan,
                  const Coding& coding, const c10::Device& device) {
  const Tensors labels = unpack(message, "label");
  SLUICE_CHECK(labels.size() == 1, "{} came with {} label tensors",
               name_of(message.kind), labels.size());
  Payload payload{unpack(message, "h", coding, device), labels[0]};
  for (const auto* names : {&plan.lower.keeps, &plan.lower.relays})
    for (const std::string& name : *names)
      if (const Tensors found = unpack(message, name); !found.empty())
        payload.attachments[name] = found[0];
  payload.version = message.weight_version;
  return payload;
}

void pack_down(const DownPayload& down, const Coding& coding,
               Message& message) {
  for (std::size_t way = 0; way < down.gradients.size(); ++way)
    pack(down.gradients[way], gradient_name(way), coding, message);
  if (!down.answer.empty()) pack(down.answer, kAnswer, message);
  if (!down.returned.empty()) pack(down.returned, kReturned, message);
  if (down.losses.defined()) pack({down.losses}, kLosses, message);
}

DownPayload unpack_down(const Message& message, const BlockPlan& sender,
                        const Coding& coding, const c10::Device& device) {
  DownPayload down;
  for (int way = 0; way < sender.gradients.leaving; ++way)
    down.gradients.push_back(unpack(
        message, gradient_name(static_cast<std::size_t>(way)), coding, device));
  if (sender.answers()) down.answer = unpack(message, kAnswer, nullptr, device);
  if (sender.gradients.returns_input)
    down.returned = unpack(message, kReturned, nullptr, device);
  return down;
}

}  // namespace sluice
