#pragma once

#include <cstdint>

#include "lib/base/messages/channel.h"

namespace sluice {

/// Bytes that have come over the link and wait; 0 where there is no link.
inline std::int64_t waiting_bytes(const Link& link) {
  return link.receiver
             ? static_cast<std::int64_t>(link.receiver->waiting_bytes())
             : 0;
}

}  // namespace sluice
