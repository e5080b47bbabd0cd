#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/messages/channel.h"

namespace sluice {

/// A channel between two threads of one process, or within one thread. Holds at
/// most `capacity_messages` (>= 1) that were not received yet; their buffers
/// are shared, not copied. Each end lives as long as its owner wants: an end
/// that is destroyed is a peer that is gone. Messages that were sent before the
/// sender was destroyed without close() are still received; then receive()
/// throws LinkError. `name` says in messages which channel it is
/// ("block 1 to block 2").
std::pair<std::unique_ptr<Sender>, std::unique_ptr<Receiver>> memory_channel(
    std::size_t capacity_messages, Deadline deadline,
    std::string name = "channel in memory");

/// Two such channels as the links of both ends: `first` is the lower block's
/// (it sends up), `second` the upper block's.
std::pair<Link, Link> memory_link(std::size_t capacity_up,
                                  std::size_t capacity_down, Deadline deadline,
                                  std::string name = "link in memory");

}  // namespace sluice
