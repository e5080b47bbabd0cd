#pragma once

#include <chrono>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "lib/base/error.h"
#include "lib/base/messages/channel.h"

namespace sluice {

/// An operation so awaited gives its error back instead of throwing it.
inline constexpr auto kResult =
    boost::asio::as_tuple(boost::asio::use_awaitable);

/// Longer waits overflow the clock.
inline constexpr Deadline kLongestWait = std::chrono::hours(8760);

/// Most time that a connection whose ends are gone may stand still before what
/// it has left to write is given up.
inline constexpr Deadline kLinger = std::chrono::seconds(5);

/// Text about a peer that is gone, whichever sign of it comes first: its last
/// frame, the end of its stream, or an error of the socket.
inline constexpr const char* kGone = "it is gone";

/// Whether that is all that the error says. Which of them comes depends on what
/// lay unread when the peer ended.
inline bool is_end_of_peer(const boost::system::error_code& error) {
  namespace asio = boost::asio;
  return error == asio::error::eof || error == asio::error::broken_pipe ||
         error == asio::error::connection_reset ||
         error == asio::ssl::error::stream_truncated;
}

/// Throws PeerGoneError where the error says that the peer is gone.
inline void check_peer(const boost::system::error_code& error) {
  if (is_end_of_peer(error)) throw PeerGoneError("{}", kGone);
  if (error) throw PeerGoneError("{}: {}", kGone, error.message());
}

}  // namespace sluice
