#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "lib/base/messages/channel.h"

namespace sluice {

/// A sender whose messages arrive so much later, and no slower one after the
/// other: a longer wire. `room` of them, >= 1, are on it at most; send() blocks
/// meanwhile. What goes wrong in it is thrown by the next send(). Closing it
/// doesn't wait; destroying it waits until what was sent before a close() is
/// under way, and drops what was not closed.
std::unique_ptr<Sender> delayed_sender(std::unique_ptr<Sender> inner,
                                       std::chrono::microseconds delay,
                                       std::size_t room);

}  // namespace sluice
