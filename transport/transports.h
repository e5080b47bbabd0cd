#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>

#include "lib/base/channel.h"
#include "lib/base/table.h"
#include "transport/connection.h"
#include "transport/hello.h"

namespace sluice {

/// A listening stream socket of any kind.
using Acceptor =
    boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

struct Listener {
  Acceptor acceptor;
  std::string address;  ///< what connect() takes
};

/// How processes reach each other. Sockets are made close-on-exec: a child that
/// inherits one would keep it open after its owner died.
struct Transport {
  /// `folder` is private to the run and removed after it; `name` is unique in
  /// it. Throws UserError.
  Listener (*listen)(boost::asio::io_context& io, const std::string& folder,
                     const std::string& name);
  /// On the I/O thread. Throws LinkError.
  boost::asio::awaitable<Socket> (*connect)(std::string address);
  /// Makes the link after the hellos; arguments as open_link() has them.
  Link (*open)(IoThread& io, Socket socket, LinkOptions options,
               std::vector<std::byte> first);
};

using TransportRow = Row<Transport>;

/// A new transport is one source file and one row.
std::span<const TransportRow> transports();
/// Throws UserError for a name that is in no row.
const Transport& transport_of(std::string_view name);

Transport unix_transport();

}  // namespace sluice
