#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "lib/base/buffer.h"
#include "lib/base/channel.h"
#include "transport/frame.h"

namespace sluice {

/// How a link behaves. Both ends must agree on the capacities.
struct LinkOptions {
  std::string here = "this end";   ///< for messages: "block 1"
  std::string there = "the peer";  ///< for messages: "block 2"
  /// Messages that may be on their way or unread in each direction, >= 1.
  std::size_t capacity_send = 1;
  std::size_t capacity_receive = 1;
  /// How long a send or receive waits while nothing moves on the connection.
  Deadline deadline = std::chrono::minutes(1);
  FrameLimits limits = {};
  /// Called on the I/O thread, so it must not block.
  BufferSource buffers = allocate_buffer;
};

}  // namespace sluice
