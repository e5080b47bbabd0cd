#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

#include "lib/base/messages/channel.h"
#include "transport/links/stream.h"
#include "transport/links/transport.h"

// The part that the transports over TCP share.
namespace sluice {

/// An address like "10.0.0.1:4000", "[::1]:4000", or without a port: 0.
struct TcpAddress {
  std::string host = {};
  std::uint16_t port = 0;

  bool operator==(const TcpAddress&) const = default;
};

/// Throws LinkError for a text that is no address.
TcpAddress parse_tcp_address(std::string_view text);

/// Hosts that may be at the other end.
enum class PeerHosts : std::uint8_t {
  this_host,  ///< loopback only: nothing is encrypted
  any_host,
};

/// Throws UserError: also for an address that `peers` doesn't allow.
Listener listen_over_tcp(boost::asio::io_context& io, const Place& place,
                         PeerHosts peers);
/// Throws UserError when no rank 0 can listen at `host`. No peer can connect
/// meanwhile, and take this for the real listener.
void check_tcp_host(const std::string& host);
/// Throws LinkError.
boost::asio::awaitable<Socket> connect_over_tcp(std::string address,
                                                PeerHosts peers);

/// Tries until a process accepts connections there, since the peer may not have
/// come so far yet. Throws LinkError when none does in time.
void wait_for_listener(const std::string& address, Deadline patience);

}  // namespace sluice
