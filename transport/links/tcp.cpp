#include "transport/links/tcp.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/this_coro.hpp>
#include <sys/socket.h>

#include "lib/base/error.h"
#include "transport/links/make_socket.h"
#include "transport/wire/completion.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::ip::udp;
using boost::system::error_code;

// An address as it is written; names are for a resolver.
std::optional<asio::ip::address> literal(const std::string& host) {
  error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error) return std::nullopt;
  return address;
}

// The port in ":80"; 0 for an empty text, nothing for one that is no port.
std::optional<std::uint16_t> port_of(std::string_view text) {
  if (text.empty()) return 0;
  if (!text.starts_with(':')) return std::nullopt;
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + 1, end, port);
  if (error != std::errc() || rest != end) return std::nullopt;
  return port;
}

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6()
             ? fmt::format("[{}]:{}", host, endpoint.port())
             : fmt::format("{}:{}", host, endpoint.port());
}

std::string not_encrypted(const asio::ip::address& address) {
  return fmt::format(
      "'{}' is not an address of this host alone, and over transport 'tcp' "
      "what is sent there would not be encrypted: use transport 'tls', or "
      "127.0.0.1 or ::1",
      address.to_string());
}

bool allowed(const asio::ip::address& address, PeerHosts peers) {
  return peers == PeerHosts::any_host || address.is_loopback();
}

// The address from which this host reaches that one. Nothing is sent.
asio::ip::address address_towards(asio::io_context& io,
                                  const TcpAddress& there) {
  tcp::resolver resolver(io);
  const tcp::endpoint target =
      resolver.resolve(there.host, std::to_string(there.port))
          .begin()
          ->endpoint();
  const udp::endpoint endpoint(target.address(), target.port());
  udp::socket probe(io, endpoint.protocol(),
                    make_socket(endpoint.protocol().family(), SOCK_DGRAM));
  probe.connect(endpoint);
  return probe.local_endpoint().address();
}

tcp::endpoint endpoint_to_listen_at(asio::io_context& io, const Place& place) {
  if (place.host.empty() && place.launcher.empty()) {
    return {asio::ip::address_v4::loopback(), 0};
  }
  if (place.host.empty()) {
    return {address_towards(io, parse_tcp_address(place.launcher)), 0};
  }
  const TcpAddress own = parse_tcp_address(place.host);
  if (const auto address = literal(own.host)) return {*address, own.port};
  tcp::resolver resolver(io);
  return {resolver.resolve(own.host, "").begin()->endpoint().address(),
          own.port};
}

void check_listening(const tcp::endpoint& endpoint, PeerHosts peers) {
  if (endpoint.address().is_unspecified()) {
    throw UserError(
        "can't listen at '{}', which is every address of this host: name the "
        "one by which the other hosts reach it",
        endpoint.address().to_string());
  }
  if (!allowed(endpoint.address(), peers)) {
    throw UserError("can't listen: {}", not_encrypted(endpoint.address()));
  }
}

// Result of a try to connect within that time: the kernel itself tries for
// minutes where nothing answers.
error_code try_to_connect(asio::io_context& io, const tcp::endpoint& there,
                          std::chrono::steady_clock::duration patience) {
  tcp::socket socket(io, there.protocol(),
                     make_socket(there.protocol().family(), SOCK_STREAM));
  bool is_over = false;
  error_code result;
  socket.async_connect(there, [&](const error_code& error) {
    is_over = true;
    result = error;
  });
  io.restart();
  io.run_for(patience);
  if (is_over) return result;
  error_code ignored;
  socket.close(ignored);
  io.restart();
  io.run();  // the handler, while what it refers to is there
  return asio::error::timed_out;
}

asio::awaitable<std::vector<tcp::endpoint>> endpoints_of(TcpAddress address) {
  std::vector<tcp::endpoint> found;
  if (const auto number = literal(address.host)) {
    found.emplace_back(*number, address.port);
    co_return found;
  }
  tcp::resolver resolver(co_await asio::this_coro::executor);
  const auto [error, results] = co_await resolver.async_resolve(
      address.host, std::to_string(address.port), kResult);
  if (error) {
    throw LinkError("host '{}' has no known address: {}", address.host,
                    error.message());
  }
  for (const auto& result : results) found.push_back(result.endpoint());
  co_return found;
}

}  // namespace

TcpAddress parse_tcp_address(std::string_view text) {
  const bool bracket = text.starts_with('[');
  // An address with more than one colon is of IPv6, without a port.
  const bool bare = !bracket && text.find(':') != text.rfind(':');
  const std::size_t end = std::min(
      text.size(), bare ? text.size() : text.find(bracket ? ']' : ':'));
  const std::string_view host = text.substr(bracket, end - bracket);
  const std::string_view rest =
      text.substr(std::min(text.size(), end + bracket));
  const auto port = port_of(rest);
  if (host.empty() || !port || (bracket && end == text.size())) {
    throw LinkError("'{}' is no address; allowed are HOST:PORT and [IPV6]:PORT",
                    text);
  }
  return {std::string(host), *port};
}

Listener listen_over_tcp(asio::io_context& io, const Place& place,
                         PeerHosts peers) {
  try {
    const tcp::endpoint endpoint = endpoint_to_listen_at(io, place);
    check_listening(endpoint, peers);
    tcp::acceptor acceptor(
        io, endpoint.protocol(),
        make_socket(endpoint.protocol().family(), SOCK_STREAM));
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    // Accepted sockets inherit the option.
    acceptor.set_option(tcp::no_delay(true));
    acceptor.bind(endpoint);
    acceptor.listen();
    std::string address = text_of(acceptor.local_endpoint());
    return {Acceptor(std::move(acceptor)), std::move(address)};
  } catch (const boost::system::system_error& error) {
    throw UserError("can't listen at '{}': {}",
                    place.host.empty() ? "loopback" : place.host,
                    error.code().message());
  }
}

void check_tcp_host(const std::string& host) {
  try {
    asio::io_context io;
    Place place;
    place.host = host;
    const tcp::endpoint endpoint = endpoint_to_listen_at(io, place);
    check_listening(endpoint, PeerHosts::any_host);
    tcp::acceptor acceptor(
        io, endpoint.protocol(),
        make_socket(endpoint.protocol().family(), SOCK_STREAM));
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(endpoint);
  } catch (const boost::system::system_error& error) {
    throw UserError("can't listen at '{}': {}", host, error.code().message());
  } catch (const LinkError& error) {
    throw UserError("can't listen at '{}': {}", host, error.what());
  }
}

asio::awaitable<Socket> connect_over_tcp(std::string address, PeerHosts peers) {
  const std::vector<tcp::endpoint> endpoints =
      co_await endpoints_of(parse_tcp_address(address));
  std::string reason;
  for (const tcp::endpoint& endpoint : endpoints) {
    if (!allowed(endpoint.address(), peers)) {
      throw LinkError("can't connect: {}", not_encrypted(endpoint.address()));
    }
    tcp::socket socket(co_await asio::this_coro::executor, endpoint.protocol(),
                       make_socket(endpoint.protocol().family(), SOCK_STREAM));
    const auto [error] = co_await socket.async_connect(endpoint, kResult);
    if (!error) {
      socket.set_option(tcp::no_delay(true));
      co_return Socket(std::move(socket));
    }
    reason = error.message();
  }
  throw LinkError("can't connect to '{}': {}", address, reason);
}

Transport tcp_transport() {
  return {.listen =
              [](asio::io_context& io, const Place& place) {
                return listen_over_tcp(io, place, PeerHosts::this_host);
              },
          .connect =
              [](std::string address) {
                return connect_over_tcp(std::move(address),
                                        PeerHosts::this_host);
              },
          .open = open_link,
          .checksum = true,
          .reconnects = true};
}

void wait_for_listener(const std::string& address, Deadline patience) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kBetween = std::chrono::milliseconds(50);
  constexpr auto kShortTry = std::chrono::milliseconds(100);
  constexpr auto kTry = std::chrono::seconds(5);
  const TcpAddress there = parse_tcp_address(address);
  const auto until = Clock::now() + std::min(patience, kLongestWait);
  asio::io_context io;
  error_code error;
  do {
    tcp::resolver resolver(io);
    const auto found =
        resolver.resolve(there.host, std::to_string(there.port), error);
    for (const auto& place : found) {
      error = try_to_connect(
          io, place.endpoint(),
          std::clamp<Clock::duration>(until - Clock::now(), kShortTry, kTry));
      if (!error) return;
    }
    std::this_thread::sleep_for(kBetween);
  } while (Clock::now() < until);
  throw LinkError("nobody listens at '{}': {}", address, error.message());
}

}  // namespace sluice
