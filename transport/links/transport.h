#pragma once

#include <memory>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>

#include "lib/base/messages/channel.h"
#include "transport/links/connection.h"
#include "transport/links/stream.h"

namespace sluice {

/// A listening stream socket of any kind.
using Acceptor =
    boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

struct Listener {
  Acceptor acceptor;
  std::string address;  ///< what connect() takes
};

/// Place at which a process listens.
struct Place {
  std::string folder = {};  ///< private to the run, and removed after it
  std::string name = {};    ///< of the listener, unique in the run
  /// Which address of this host, perhaps with a port; empty: loopback, or,
  /// where `launcher` is given, the one from which that is reached.
  std::string host = {};
  std::string launcher = {};  ///< of a worker: the launcher's address
};

/// How processes reach each other. Sockets are made close-on-exec: a child that
/// inherits one would keep it open after its owner died.
struct Transport {
  /// May block, to find a host by its name. Throws UserError.
  Listener (*listen)(boost::asio::io_context& io, const Place& place);
  /// Connects, on the I/O thread. Throws LinkError.
  boost::asio::awaitable<Socket> (*connect)(std::string address);
  /// Makes the link after handshake and hellos; arguments as open_link() has
  /// them.
  Link (*open)(IoThread& io, Stream stream, LinkOptions options,
               std::vector<std::byte> first);
  /// Whether connections get TLS, with the run's secret as its key, before
  /// their ends prove themselves.
  bool encrypted = false;
  /// Whether payloads carry a checksum: what they go through may damage them
  /// and has none that is good enough.
  bool checksum = false;
  /// Whether a link can have a new connection when one broke.
  bool reconnects = false;
};

Transport unix_transport();
Transport tcp_transport();
Transport tls_transport();

}  // namespace sluice
