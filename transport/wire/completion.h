#pragma once

#include <chrono>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "lib/base/channel.h"
#include "lib/base/error.h"

namespace sluice {

/// An operation so awaited gives its error back instead of throwing it.
inline constexpr auto kResult =
    boost::asio::as_tuple(boost::asio::use_awaitable);

/// Longer waits overflow the clock.
inline constexpr Deadline kLongestWait = std::chrono::hours(8760);

/// How long a connection whose ends are gone may stand still, at most, before
/// what it has left to write is given up.
inline constexpr Deadline kLinger = std::chrono::seconds(5);

/// Throws PeerGone when it is.
inline void check_peer(const boost::system::error_code& error) {
  if (error == boost::asio::error::eof ||
      error == boost::asio::ssl::error::stream_truncated) {
    throw PeerGone("it is gone");
  }
  if (error) throw PeerGone("it is gone: {}", error.message());
}

}  // namespace sluice
