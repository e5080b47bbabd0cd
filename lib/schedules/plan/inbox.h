#pragma once

#include <optional>

#include "lib/base/messages/channel.h"
#include "lib/schedules/plan/replay_buffer.h"

namespace sluice {

/// How activations wait at a boundary whose blocks don't wait for each other,
/// as far as schedules are concerned: what comes next, what is dropped.
struct InboxTraits {
  /// The block above takes its inputs from such a buffer.
  std::optional<ReplayOptions> buffer = {};
  /// The fate of messages for which the block above has no time.
  SlowConsumer slow_consumer = SlowConsumer::block;

  bool operator==(const InboxTraits&) const = default;
  bool drops() const { return slow_consumer != SlowConsumer::block; }
  /// Whether the inbox gives all messages, one after the other.
  bool is_plain() const { return !buffer && !drops(); }
};

}  // namespace sluice
