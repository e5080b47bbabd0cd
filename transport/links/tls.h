#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include "transport/links/stream.h"
#include "transport/wire/secret.h"

namespace sluice {

/// TLS 1.3 on a connected socket, with a key made of the run's secret and no
/// certificates. Used by Stream only, as which it is used; the socket must
/// outlive it.
class Tls {
 public:
  Tls(Socket& socket, Side side, const Secret& secret,
      std::uint64_t bytes_per_key);
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  /// Throws LinkError unless the peer holds the same secret.
  boost::asio::awaitable<void> handshake();
  boost::asio::awaitable<void> read(
      std::span<const boost::asio::mutable_buffer> buffers,
      const Stream::MoveCallback* moved);
  boost::asio::awaitable<void> write(
      std::span<const boost::asio::const_buffer> buffers,
      const Stream::MoveCallback* moved);

 private:
  boost::asio::awaitable<void> write_collected(
      const Stream::MoveCallback* moved);

  const Side side_;
  const Secret::Bytes key_;
  const std::uint64_t bytes_per_key_;
  std::uint64_t bytes_of_key_ = 0;  // that were encrypted with this one
  boost::asio::ssl::context context_;
  boost::asio::ssl::stream<Socket&> stream_;
  std::vector<std::byte> collected_;
};

}  // namespace sluice
