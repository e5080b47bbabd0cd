#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sys/socket.h>

#include "lib/base/error.h"
#include "transport/links/make_socket.h"
#include "transport/links/transport.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using asio::local::stream_protocol;

// sizeof(sockaddr_un::sun_path), with its closing zero.
constexpr std::size_t kMaxPath = 108;

Listener listen(asio::io_context& io, const Place& place) {
  if (!place.host.empty()) {
    throw UserError(
        "host '{}' is of no use to transport 'unix', which is for one host: "
        "use 'tls'",
        place.host);
  }
  std::string path = place.folder + "/" + place.name;
  if (path.size() >= kMaxPath) {
    throw UserError(
        "socket path '{}' has {} bytes; fewer than {} are allowed: choose a "
        "shorter temporary directory (TMPDIR)",
        path, path.size(), kMaxPath);
  }
  stream_protocol::acceptor acceptor(io, stream_protocol(),
                                     make_socket(AF_UNIX, SOCK_STREAM));
  boost::system::error_code error;
  acceptor.bind(stream_protocol::endpoint(path), error);
  if (!error) {
    acceptor.listen(asio::socket_base::max_listen_connections, error);
  }
  if (error) throw UserError("can't listen at '{}': {}", path, error.message());
  return {Acceptor(std::move(acceptor)), std::move(path)};
}

asio::awaitable<Socket> connect(std::string address) {
  if (address.empty() || address.size() >= kMaxPath) {
    throw LinkError("'{}' is no path of a socket", address);
  }
  stream_protocol::socket socket(co_await asio::this_coro::executor,
                                 stream_protocol(),
                                 make_socket(AF_UNIX, SOCK_STREAM));
  const auto [error] = co_await socket.async_connect(
      stream_protocol::endpoint(address), asio::as_tuple(asio::use_awaitable));
  if (error) {
    throw LinkError("can't connect to '{}': {}", address, error.message());
  }
  co_return Socket(std::move(socket));
}

}  // namespace

Transport unix_transport() {
  return {.listen = listen, .connect = connect, .open = open_link};
}

}  // namespace sluice
