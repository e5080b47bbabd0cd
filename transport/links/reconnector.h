#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include <boost/asio/awaitable.hpp>

#include "transport/links/accepted_peer.h"
#include "transport/links/hello.h"

namespace sluice {

/// Makes a new connection to a link's peer after one broke: the end that called
/// calls again, the other waits for that. On the I/O thread.
class Reconnector {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Reconnector() = default;
  /// From now on the peer may reconnect; `returned` is called when it does,
  /// perhaps before this end has noticed that the connection broke.
  virtual void expect(std::function<void()> returned) = 0;
  /// A new connection on which both have greeted: we with the session, and how
  /// many messages came and were taken. The old one is closed by now; the
  /// trouble began at `since`. Throws LinkError when none was made until
  /// `until`, and FencedLinkError at once when the peer doesn't know the
  /// session.
  virtual boost::asio::awaitable<AcceptedPeer> meet(
      std::uint64_t received, std::uint64_t taken, Clock::time_point since,
      Clock::time_point until) = 0;
  /// Ends a meet() that waits; a peer that reconnects now learns that the link
  /// has ended.
  virtual void stop() = 0;
};

}  // namespace sluice
