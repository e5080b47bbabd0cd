#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lib/base/buffer.h"
#include "lib/base/messages/channel.h"
#include "lib/base/messages/message.h"
#include "transport/wire/frame.h"
#include "transport/wire/shared_options.h"

namespace sluice {

class Reconnector;

/// How a link behaves. Both ends must agree on the capacities.
struct LinkOptions {
  std::string here = "this end";   ///< for messages: "block 1"
  std::string there = "the peer";  ///< for messages: "block 2"
  /// Messages that may be on their way or unread in each direction, >= 1.
  std::size_t capacity_send = 1;
  std::size_t capacity_receive = 1;
  /// How long a send or receive waits while nothing moves: no bytes but
  /// heartbeats', and no learner of the peer's process.
  Deadline deadline = std::chrono::minutes(1);
  /// Time between messages to the peer that this process lives, and whether its
  /// learner moved.
  std::chrono::milliseconds heartbeat = std::chrono::milliseconds(250);
  /// Whether payloads that are sent carry a checksum; one that comes is always
  /// compared.
  bool checksum = false;
  /// Time that the link tries to get a new connection when one broke. It goes
  /// on with the new one, without losing or repeating a message. 0: a broken
  /// connection is the link's end.
  Deadline reconnect = Deadline(0);
  /// Source of the new stream; needed unless `reconnect` is 0.
  std::shared_ptr<Reconnector> reconnector = nullptr;
  /// Called on the I/O thread with each new one: how long there was none.
  std::function<void(std::chrono::milliseconds)> reconnected = nullptr;
  FrameLimits limits = {};
  /// Called on the I/O thread, or that of an end of a link over shared memory,
  /// one call at a time; it must not block.
  BufferSource buffers = allocate_buffer;
  /// Options of links through shared memory; other links ignore them.
  SharedMemoryOptions shared_memory = {};
  /// Damage for faults that are made on purpose: may change the header and
  /// block of a data frame, whose checksums were computed. On the thread that
  /// sends. A frame that is sent again, by a link that reconnects, is as it was
  /// before.
  std::function<void(const Message& message, std::span<std::byte> frame)>
      damage = nullptr;
};

}  // namespace sluice
