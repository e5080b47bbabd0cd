#include "lib/base/messages/message.h"

#include "lib/base/error.h"

namespace sluice {

std::string_view name_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::activation:
      return "activation";
    case MessageKind::gradient:
      return "gradient";
    case MessageKind::evaluation:
      return "evaluation";
    case MessageKind::norm:
      return "norm";
    case MessageKind::grant:
      return "grant";
    case MessageKind::record:
      return "record";
    case MessageKind::reached:
      return "reached";
    case MessageKind::failure:
      return "failure";
    case MessageKind::observation:
      return "observation";
    case MessageKind::progress:
      return "progress";
    case MessageKind::clock:
      return "clock";
    case MessageKind::newcomer:
      return "newcomer";
    case MessageKind::centre:
      return "centre";
    case MessageKind::exchange:
      return "exchange";
  }
  throw InternalError("{} is no MessageKind", static_cast<int>(kind));
}

bool is_message_kind(std::uint8_t value) {
  return value >= static_cast<std::uint8_t>(MessageKind::activation) &&
         value <= static_cast<std::uint8_t>(MessageKind::centre);
}

std::size_t payload_bytes(const Message& message) {
  std::size_t bytes = 0;
  for (const TensorView& tensor : message.tensors) {
    bytes += tensor.buffer.bytes;
  }
  return bytes;
}

std::size_t payload_bytes(const std::deque<Message>& messages) {
  std::size_t bytes = 0;
  for (const Message& message : messages) bytes += payload_bytes(message);
  return bytes;
}

}  // namespace sluice
